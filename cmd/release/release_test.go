package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairlead.io/test/kit/distcheck"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/registry"
	"fairlead.io/test/kit/smalltree"
	"fairlead.io/test/kit/tree"
)

const (
	toRegistry  = "FAIRLEAD_REGISTRY=registry.example/fairlead"
	toDownloads = "FAIRLEAD_DOWNLOADS=https://downloads.example/fairlead"
)

// TestMain runs the program itself where a test starts this binary as such: linking another
// one takes longer than most tests.
func TestMain(m *testing.M) {
	if os.Getenv("RELEASE_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// self is the program under test. smalltree names it in RELEASE_PROGRAM.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func must(t *testing.T, out string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Two builds of a commit are equal: at another time, in another directory, with another
// umask and other settings, and one of them from a branch that is not checked out. What
// they have in them works.
func TestReleaseIsReproducible(t *testing.T) {
	program, dir := self(t), smalltree.New(t)
	out, err := smalltree.Run(t, program, dir, toRegistry, toDownloads, "create", "minor")
	must(t, out, err)
	if tested, err := os.ReadFile(filepath.Join(dir, "tested")); err != nil || string(tested) != "tested\n" {
		t.Errorf("the tests did not run: %v", err)
	}

	clone := filepath.Join(t.TempDir(), "clone")
	smalltree.Git(t, dir, "clone", "--quiet", dir, clone)
	smalltree.Git(t, clone, "checkout", "--quiet", "-b", "other")
	smalltree.Write(t, clone, "other", "x")
	smalltree.Commit(t, clone)
	c := exec.CommandContext(t.Context(), "sh", "-c", "umask 077 && exec helpers/release create minor --ref main")
	c.Dir = clone
	c.Env = append(append(os.Environ(), smalltree.Identity...), "RELEASE_PROGRAM="+program, toRegistry, toDownloads,
		"TZ=Pacific/Kiritimati", "LC_ALL=de_CH.UTF-8", "GOAMD64=v3", "GOFLAGS=-ldflags=-X=main.version=other", "SOURCE_DATE_EPOCH=1", "HELM_NAMESPACE=other")
	log, err := c.CombinedOutput()
	must(t, string(log), err)
	if trees := smalltree.Git(t, clone, "worktree", "list"); strings.Count(trees, "\n") != 0 {
		t.Errorf("a checkout is left: %s", trees)
	}
	differences, err := distcheck.Differences(filepath.Join(dir, "dist"), filepath.Join(clone, "dist"))
	if err != nil || len(differences) > 0 {
		t.Errorf("two builds differ (%v):\n%s", err, strings.Join(differences, "\n"))
	}
	if left := smalltree.Git(t, dir, "status", "--porcelain", "--ignored"); left != "!! dist/\n!! tested" {
		t.Errorf("it left:\n%s", left)
	}

	t.Run("images", func(t *testing.T) { imagesStart(t, filepath.Join(dir, "dist")) })
	t.Run("files", func(t *testing.T) { filesFit(t, filepath.Join(dir, "dist")) })
}

// imagesStart runs the image for this machine, and looks at the other.
func imagesStart(t *testing.T, dist string) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		root := filepath.Join(t.TempDir(), arch)
		config, err := distcheck.Unpack(filepath.Join(dist, imageDir), arch, root)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.Open(filepath.Join(root, "fairlead"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine || config.Architecture != arch || config.OS != "linux" {
			t.Errorf("the image for %s has a program for %s, and says %+v", arch, f.Machine, config)
		}
		f.Close()
		host, err := elf.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		host.Close()
		if host.Machine != machine {
			continue
		}
		c, err := distcheck.Command(t.Context(), root, config)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := c.CombinedOutput(); err != nil || string(out) != "v0.1.0\n" {
			t.Errorf("the image prints %q (%v)", out, err)
		}
	}
}

// filesFit: the checksums are those of the files, manifests name the image by its digest,
// krew finds archives, and the notes are those of the changelog.
func filesFit(t *testing.T, dist string) {
	files := filepath.Join(dist, filesDir)
	c := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsFile)
	c.Dir = files
	out, err := c.CombinedOutput()
	must(t, string(out), err)
	entries, err := os.ReadDir(files)
	if err != nil {
		t.Fatal(err)
	}
	if sums := bytes.Count(out, []byte(": OK\n")); sums != len(entries)-1 {
		t.Errorf("%d of %d files have a checksum", sums, len(entries)-1)
	}
	var r release
	content, err := os.ReadFile(filepath.Join(dist, releaseFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	image := "registry.example/fairlead/fairlead:0.1.0@" + r.Image.Digest
	systems, err := filepath.Glob(tree.Path("deploy", "*.yaml"))
	if err != nil || len(systems) < 6 {
		t.Fatalf("there are %v (%v)", systems, err)
	}
	for _, path := range systems {
		system := filepath.Base(path)
		manifest := readFile(t, filepath.Join(files, system))
		for line := range strings.Lines(string(manifest)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "image: ") && line != "image: "+image || strings.Contains(line, "fairlead.invalid") || line == "imagePullPolicy: Never" {
				t.Errorf("%s: %s", system, line)
			}
		}
		if bytes.Contains(readFile(t, path), []byte(" image: ")) != bytes.Contains(manifest, []byte("image: "+image)) {
			t.Errorf("%s does not have %s", system, image)
		}
	}
	var krew krewManifest
	content, err = os.ReadFile(filepath.Join(files, "krew-fairlead.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, &krew); err != nil || len(krew.Spec.Platforms) != 6 || krew.Spec.Version != "v0.1.0" {
		t.Errorf("krew's manifest is %s (%v)", content, err)
	}
	for _, p := range krew.Spec.Platforms {
		name, found := strings.CutPrefix(p.URI, "https://downloads.example/fairlead/v0.1.0/")
		if !found || !bytes.Contains(readFile(t, filepath.Join(files, sumsFile)), []byte(p.SHA256+"  "+name+"\n")) {
			t.Errorf("krew finds no %s", p.URI)
		}
	}
	notes := string(readFile(t, filepath.Join(files, "NOTES.md")))
	for _, want := range []string{"- The first version.", image, "oci://registry.example/fairlead/charts/fairlead --version 0.1.0", "https://downloads.example/fairlead/v0.1.0/metallb.yaml"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// What cannot be released is refused with a sentence, before the tests run, and nothing is
// left behind.
func TestCreateRefuses(t *testing.T) {
	program := self(t)
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		args   string
		want   string
	}{
		{"dirty tree", func(t *testing.T, dir string) { smalltree.Write(t, dir, "LICENSE", "x") }, "create minor", "changes that are not committed"},
		{"new file", func(t *testing.T, dir string) { smalltree.Write(t, dir, "new.go", "x") }, "create minor", "new.go"},
		{"main is the default", func(t *testing.T, dir string) {
			good := string(readFile(t, filepath.Join(dir, "CHANGELOG.md")))
			smalltree.Write(t, dir, "CHANGELOG.md", "# Changelog\n\n## 0.1.0 (not released yet)\n\n- x\n")
			smalltree.Commit(t, dir)
			smalltree.Git(t, dir, "checkout", "--quiet", "-b", "topic")
			smalltree.Write(t, dir, "CHANGELOG.md", good)
			smalltree.Commit(t, dir)
		}, "create minor", "0.1.0 is not released yet"},
		{"a branch of origin", func(t *testing.T, dir string) {
			smalltree.Git(t, dir, "checkout", "--quiet", "-b", "topic")
			smalltree.Write(t, dir, "fails", "")
			smalltree.Commit(t, dir)
			smalltree.Git(t, dir, "update-ref", "refs/remotes/origin/topic", "HEAD")
			smalltree.Git(t, dir, "checkout", "--quiet", "main")
			smalltree.Git(t, dir, "branch", "--quiet", "-D", "topic")
		}, "create minor --pre --ref topic", "the tests failed, nothing was built"},
		{"other ref", func(t *testing.T, dir string) { smalltree.Git(t, dir, "branch", "topic") }, "create minor --ref topic", "from the branch main only, and this is topic. Use --pre"},
		{"no such branch", nil, "create minor --pre --ref topic", `no branch "topic", neither here nor on origin`},
		{"no branch", func(t *testing.T, dir string) { smalltree.Git(t, dir, "checkout", "--quiet", "--detach") }, "create minor --pre", "no branch is checked out"},
		{"released already", func(t *testing.T, dir string) { smalltree.Git(t, dir, "tag", "v0.1.0") }, "create minor", "released already: it has the tag v0.1.0"},
		{"no section", nil, "create patch", `CHANGELOG.md has no section "## 0.0.1"`},
		{"no date", func(t *testing.T, dir string) {
			smalltree.Write(t, dir, "CHANGELOG.md", "# Changelog\n\n## 0.1.0 (not released yet)\n\n- x\n")
			smalltree.Commit(t, dir)
		}, "create minor", "0.1.0 is not released yet. Replace that with the date"},
		{"chart of another version", func(t *testing.T, dir string) {
			smalltree.Write(t, dir, "CHANGELOG.md", "# Changelog\n\n## 1.0.0 (2026-01-31)\n\n- x\n")
			smalltree.Commit(t, dir)
		}, "create major", "has version 0.1.0. Set version and appVersion to 1.0.0"},
		{"behind origin", func(t *testing.T, dir string) {
			smalltree.Git(t, dir, "update-ref", "refs/remotes/origin/main", smalltree.Git(t, dir, "commit-tree", "-m", "x", "HEAD^{tree}"))
		}, "create minor", "Pull or push first"},
		{"unknown part", nil, "create huge", "use patch, minor or major"},
		{"no part", nil, "create", "needs one argument"},
		{"unknown flag", nil, "create minor --force", "unknown flag: --force"},
		{"unknown command", nil, "publish", `unknown command "publish"`},
		{"failing tests", func(t *testing.T, dir string) {
			smalltree.Write(t, dir, "fails", "")
			smalltree.Commit(t, dir)
		}, "create minor", "the tests failed, nothing was built"},
		{"tests that change files", nil, "create minor --test-command=date>LICENSE", "after the tests, the checkout has changes"},
		{"nothing to sign", nil, "sign", "FAIRLEAD_SIGNING_KEY is not set"},
		{"nothing to upload", nil, "upload", `Run "helpers/release create" first`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := smalltree.New(t)
			if c.change != nil {
				c.change(t, dir)
			}
			out, err := smalltree.Run(t, program, dir, append([]string{toRegistry, toDownloads}, strings.Fields(c.args)...)...)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("want %q, got (%v):\n%s", c.want, err, out)
			}
			for _, name := range []string{"dist", "tested"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					t.Errorf("%s is there", name)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".release-*")); err != nil || len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
	dir := smalltree.New(t)
	for _, c := range [][2]string{
		{"FAIRLEAD_REGISTRY=", "FAIRLEAD_REGISTRY is not set"},
		{"FAIRLEAD_REGISTRY=https://registry.example", "not a registry such as"},
		{"FAIRLEAD_DOWNLOADS=", "FAIRLEAD_DOWNLOADS is not set"},
		{"FAIRLEAD_DOWNLOADS=http://downloads.example", "not a URL such as"},
	} {
		if out, err := smalltree.Run(t, program, dir, toRegistry, toDownloads, c[0], "create", "minor"); err == nil || !strings.Contains(out, c[1]) {
			t.Errorf("%s: %v\n%s", c[0], err, out)
		}
	}
}

// A pre-release from a branch is signed and uploaded: first dry, then with a registry that
// fails in between, then completely, then again.
func TestUpload(t *testing.T) {
	program, dir := self(t), smalltree.New(t)
	const password, user = "pa55/w0rd+", "FAIRLEAD_REGISTRY_USER=releaser"
	server := registry.Start(t, "releaser", password)
	dist, secret := filepath.Join(dir, "dist"), "FAIRLEAD_REGISTRY_PASSWORD="+password
	var all strings.Builder
	run := func(args ...string) (string, error) {
		t.Helper()
		out, err := smalltree.Run(t, program, dir, args...)
		all.WriteString(out)
		return out, err
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := run(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: want %q, got (%v):\n%s", args, want, err, out)
		}
		if writes := server.Writes(); len(writes) > 0 {
			t.Errorf("%v wrote %v", args, writes)
		}
	}
	smalltree.Git(t, dir, "checkout", "--quiet", "-b", "topic")
	to := "FAIRLEAD_REGISTRY=" + server.Host + "/fairlead"
	out, err := run(to, toDownloads, "create", "minor", "--pre")
	must(t, out, err)

	described := filepath.Join(dist, releaseFile)
	replaceFor(t, described, `"make test"`, `"true"`, func() {
		refused(`tested with "true", not with "make test"`, user, secret, "upload")
	})
	refused("are not both set", "FAIRLEAD_REGISTRY_USER=", "FAIRLEAD_REGISTRY_PASSWORD=", "upload")
	refused(`refuses the user "releaser"`, user, "FAIRLEAD_REGISTRY_PASSWORD=wrong", "upload")
	refused("is not a private P-256 key", "FAIRLEAD_SIGNING_KEY=secret-words", "sign")
	key := newKey(t)
	out, err = run("FAIRLEAD_SIGNING_KEY="+key, "sign")
	must(t, out, err)
	signedByOpenSSL(t, dist)

	out, err = run(user, secret, "upload", "--dry-run")
	must(t, out, err)
	if writes := server.Writes(); len(writes) > 0 || !strings.Contains(out, "Would upload "+server.Host+"/fairlead/charts/fairlead:0.1.0-rc.1@sha256:") {
		t.Errorf("a dry run wrote %v:\n%s", writes, out)
	}

	replaceFor(t, filepath.Join(dist, filesDir, "NOTES.md"), "The first version", "Another version", func() {
		refused("was changed after it was tested", user, secret, "upload")
	})
	smalltree.Git(t, dir, "tag", "v0.1.0-rc.1", smalltree.Git(t, dir, "commit-tree", "-m", "x", "HEAD^{tree}"))
	refused("the tag v0.1.0-rc.1 exists, and names the commit", user, secret, "upload")
	smalltree.Git(t, dir, "tag", "--delete", "v0.1.0-rc.1")
	remove := server.Put("fairlead/charts/fairlead", "0.1.0-rc.1", []byte("{}"))
	refused("A published version is never replaced", user, secret, "upload")
	remove()

	server.FailPut(9)
	out, err = run(user, secret, "upload")
	if err == nil || !strings.Contains(out, "The upload is not complete; run it again") {
		t.Errorf("the registry failed (%v):\n%s", err, out)
	}
	first := server.Writes()
	if tags := smalltree.Git(t, dir, "tag"); len(first) != 9 || server.Digest("fairlead/charts/fairlead", "0.1.0-rc.1") != "" || tags != "" {
		t.Errorf("after a failure there are %v, and tags %q", first, tags)
	}
	out, err = run(user, secret, "upload")
	must(t, out, err)
	second := server.Writes()
	for _, w := range second {
		if slices.Contains(first, w) {
			t.Errorf("the second upload repeats %s", w)
		}
	}
	if last := second[len(second)-1]; last != "PUT fairlead/charts/fairlead 0.1.0-rc.1" {
		t.Errorf("the last of the upload is %s", last)
	}
	if got := smalltree.Git(t, dir, "rev-parse", "v0.1.0-rc.1^{commit}"); got != smalltree.Git(t, dir, "rev-parse", "HEAD") {
		t.Errorf("the tag names %s", got)
	}
	uploadedIsBuilt(t, server, dist)

	out, err = run(user, secret, "upload")
	if must(t, out, err); len(server.Writes()) > 0 {
		t.Errorf("a third upload wrote something:\n%s", out)
	}
	refused("released already: it has the tag v0.1.0-rc.1", to, toDownloads, "create", "minor", "--pre")
	for _, secret := range []string{password, server.Token(), "secret-words", strings.Split(key, "\n")[1]} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%q is printed", secret)
		}
	}
}

// replaceFor changes a file while something runs.
func replaceFor(t *testing.T, path, from, to string, run func()) {
	t.Helper()
	before := readFile(t, path)
	if !bytes.Contains(before, []byte(from)) {
		t.Fatalf("%s does not have %s", path, from)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(before, []byte(from), []byte(to)), 0o644); err != nil {
		t.Fatal(err)
	}
	run()
	if err := os.WriteFile(path, before, 0o644); err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	netns.Need(t, "openssl")
	out, err := exec.CommandContext(t.Context(), "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256").Output()
	return must(t, string(out), err)
}

// signedByOpenSSL: openssl accepts the signature of the checksums.
func signedByOpenSSL(t *testing.T, dist string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", "base64 -d signatures/SHA256SUMS.sig >\"$0\" && openssl dgst -sha256 -verify signatures/fairlead.pub -signature \"$0\" files/SHA256SUMS", filepath.Join(t.TempDir(), "signature"))
	c.Dir = dist
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "Verified OK") {
		t.Errorf("openssl: %v\n%s", err, out)
	}
}

// uploadedIsBuilt: the registry has what was built, with signatures where cosign looks.
func uploadedIsBuilt(t *testing.T, server *registry.Registry, dist string) {
	t.Helper()
	var r release
	if err := json.Unmarshal(readFile(t, filepath.Join(dist, releaseFile)), &r); err != nil {
		t.Fatal(err)
	}
	for _, a := range []artifact{r.Image, r.Chart, r.Files} {
		_, repository := a.split()
		if got := server.Digest(repository, r.Version); got != a.Digest {
			t.Errorf("%s is %s, not %s", a.Name, got, a.Digest)
		}
		var signature struct {
			Layers []struct {
				Digest      string
				Annotations map[string]string
			}
		}
		if err := json.Unmarshal(server.Manifest(repository, strings.Replace(a.Digest, ":", "-", 1)+".sig"), &signature); err != nil {
			t.Fatal(err)
		}
		signed := server.Blob(repository, signature.Layers[0].Digest)
		if !bytes.Contains(signed, []byte(`"docker-manifest-digest":"`+a.Digest+`"`)) || signature.Layers[0].Annotations[signatureAnnotation] == "" {
			t.Errorf("%s has the signature %s of %s", a.Name, signature.Layers[0].Annotations, signed)
		}
	}
}
