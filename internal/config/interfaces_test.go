package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of MetalLB's own manifests.
const excludel2 = `
announcedInterfacesToExclude: ["^docker.*", "^cbr.*", "^dummy.*", "^virbr.*", "^lxcbr.*", "^veth.*", "^lo$",
  "^cali.*", "^tunl.*", "^flannel.*", "^kube-ipvs.*", "^cni.*", "^nodelocaldns.*", "^lxc.*"]
`

func TestExcluded(t *testing.T) {
	for _, test := range []struct {
		file      string
		excluded  string
		announced string
		wantErr   string
	}{
		{file: excludel2, excluded: "docker0 veth12ab lo cali1 kube-ipvs0", announced: "eth0 ens3 br-ext-cloud lo1 bond0"},
		{file: "announcedInterfacesToExclude: [eth1, '^wg']", excluded: "eth1 eth10 xeth1 wg0", announced: "eth0 docker0 veth0"},
		{file: "announcedInterfacesToExclude: ['^a|b$', '^c']", excluded: "ax xb cx", announced: "xa bx xc"},
		{file: "announcedInterfacesToExclude: []", announced: "eth0 docker0"},
		{file: "", wantErr: "list announcedInterfacesToExclude is missing"},
		{file: "announcedInterfaces: []", wantErr: "list announcedInterfacesToExclude is missing"},
		{file: "announcedInterfacesToExclude: eth0", wantErr: "cannot unmarshal"},
		{file: "announcedInterfacesToExclude: ['^eth0$', '(']", wantErr: `announcedInterfacesToExclude[1]: "(" is not a regular expression`},
		{file: "\t", wantErr: "yaml"},
	} {
		re, err := ParseExcluded([]byte(test.file))
		if test.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("%s: error %v does not contain %q", test.file, err, test.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.file, err)
			continue
		}
		for _, name := range strings.Fields(test.excluded) {
			if !re.MatchString(name) {
				t.Errorf("%s: %s is announced on", test.file, name)
			}
		}
		for _, name := range strings.Fields(test.announced) {
			if re.MatchString(name) {
				t.Errorf("%s: %s is excluded", test.file, name)
			}
		}
	}
}

func TestExcludedNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "excludel2.yaml")
	if _, err := LoadExcluded(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadExcluded(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("bad file: %v", err)
	}
	if err := os.WriteFile(path, []byte(excludel2), 0o600); err != nil {
		t.Fatal(err)
	}
	if re, err := LoadExcluded(path); err != nil || !re.MatchString("docker0") {
		t.Errorf("good file: %v, %v", re, err)
	}
}

func FuzzParseExcluded(f *testing.F) {
	f.Add([]byte(excludel2), "docker0")
	f.Add([]byte("announcedInterfacesToExclude: ['(?i)a)|(b', '']"), "eth0")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		re, err := ParseExcluded(data)
		if (re == nil) == (err == nil) {
			t.Fatalf("%v and %v", re, err)
		}
		if re != nil {
			re.MatchString(name)
		}
	})
}
