package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// FairleadImage is the image of Fairlead around its static binary.
func FairleadImage(ref, binary string) Image {
	return Image{
		Ref:        ref,
		Entrypoint: []string{"/fairlead"},
		User:       "65532:65532",
		Files:      []ImageFile{{Path: "/fairlead", Source: binary}},
	}
}

// InstallFairlead puts Fairlead into a cluster that is up, without pools: an image, and Helm
// with Fairlead's own chart.
func (c *Cluster) InstallFairlead(ctx context.Context) error {
	i, err := c.newInstallation()
	if err != nil {
		return err
	}
	return i.run(ctx, i.fairleadSteps())
}

// Install puts Fairlead into a cluster that is up, as people do: an image, and
// Helm with Fairlead's own chart. It gives it the pool and the web server of
// examples/ and returns when the web server answers the client host at its
// address. Called again, it installs what has changed since. In a cloud, see
// cloudSteps; with OVN, ovnSteps.
func (c *Cluster) Install(ctx context.Context) error {
	i, err := c.newInstallation()
	if err != nil {
		return err
	}
	pool, tell := "examples/pool.yaml", i.tellNext
	if c.Routers != "" {
		pool, tell = "examples/bgp.yaml", i.tellNextWithRouters
	}
	steps := append(i.fairleadSteps(),
		installStep{"examples", func(ctx context.Context, note io.Writer) error {
			return i.applyExamples(ctx, note, pool, webExample)
		}},
		installStep{"an answer from the example", i.awaitAnswer})
	switch {
	case c.Cloud != "":
		steps, tell = i.cloudSteps(), i.tellNextInCloud
	case c.Network == OVN:
		steps, tell = i.ovnSteps(), i.tellNextOnOVN
	}
	if err := i.run(ctx, steps); err != nil {
		return err
	}
	tell()
	return nil
}

func (c *Cluster) newInstallation() (*installation, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	kube, err := kubeSource()
	if err != nil {
		return nil, err
	}
	return &installation{cluster: c, checkout: filepath.Dir(kube), namespace: "default"}, nil
}

func (i *installation) fairleadSteps() []installStep {
	return []installStep{
		{"image of Fairlead", i.loadImage},
		{helmStep, i.buildHelm},
		{"chart of Fairlead", i.installChart},
	}
}

func (i *installation) run(ctx context.Context, steps []installStep) error {
	p := newProgress(i.cluster.Progress)
	for _, step := range steps {
		if err := p.step(step.name, func(note io.Writer) error { return step.run(ctx, note) }); err != nil {
			return err
		}
	}
	return nil
}

// installStep is a part of an Install.
type installStep struct {
	name string
	run  func(context.Context, io.Writer) error
}

// installation is an Install under way.
type installation struct {
	cluster   *Cluster
	checkout  string // the root of the source tree
	tag       string // of the image
	namespace string // of the example Service
	address   string // of the example Service
}

// webExample has the Deployment and the Service "web".
const webExample = "examples/web.yaml"

func (i *installation) loadImage(ctx context.Context, _ io.Writer) (err error) {
	if i.tag, err = i.cluster.LoadFairlead(ctx); err != nil {
		return err
	}
	const plugin = "kubectl-fairlead"
	return placeCommand(ctx, plugin, i.cluster.path("bin", plugin))
}

// FairleadRepository is the chart's default: nobody can own a name under .invalid.
const FairleadRepository = "fairlead.invalid/fairlead"

// LoadFairlead makes the image of Fairlead and gives it to all nodes of a cluster
// that is up. Its tag follows from the binary, so that pods are replaced if, and
// only if, it has changed.
func (c *Cluster) LoadFairlead(ctx context.Context) (tag string, err error) {
	if err := c.open(); err != nil {
		return "", err
	}
	binary := c.path("bin", "fairlead")
	if err := placeCommand(ctx, "fairlead", binary); err != nil {
		return "", err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("read Fairlead's binary: %w", err)
	}
	tag = fmt.Sprintf("dev-%x", sha256.Sum256(content))[:12]
	dir, err := os.MkdirTemp("", "fairlead-image-")
	if err != nil {
		return "", fmt.Errorf("make directory for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "fairlead.tar")
	if err := FairleadImage(FairleadRepository+":"+tag, binary).WriteFile(archive); err != nil {
		return "", err
	}
	return tag, c.Load(ctx, archive)
}

// placeCommand takes the binary that was built beside this program, as "make
// build" does, or builds it.
func placeCommand(ctx context.Context, name, target string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(beside); err != nil {
		return goBuild(ctx, "cmd/"+name, target)
	}
	return place(beside, target)
}

// helmStep says what takes so long on a new machine.
const helmStep = "Helm (the first time it is built from source, which takes about two minutes)"

// buildHelm has Go build Helm, unless it has done so before.
func (i *installation) buildHelm(ctx context.Context, _ io.Writer) error {
	return i.helm(ctx, io.Discard, "version", "--short")
}

func (i *installation) installChart(ctx context.Context, note io.Writer) error {
	return i.helm(ctx, note, "upgrade", "--install",
		"fairlead", "charts/fairlead", "--namespace", "fairlead-system", "--create-namespace",
		"--set", "image.tag="+i.tag, "--wait", "--timeout", "5m")
}

func (i *installation) applyExamples(ctx context.Context, note io.Writer, paths ...string) error {
	for _, path := range paths {
		if err := i.kubectl(ctx, note, "apply", "--filename", path); err != nil {
			return err
		}
	}
	return i.kubectl(ctx, note, "rollout", "status", "deployment/web", "--timeout", "5m")
}

// awaitAnswer waits until the Service has an address, and the client host an
// answer from it.
func (i *installation) awaitAnswer(ctx context.Context, note io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	const address = "{.status.loadBalancer.ingress[0].ip}"
	if err := i.kubectl(ctx, note, "wait", "service/web", "--namespace", i.namespace, "--for", "jsonpath="+address, "--timeout", "5m"); err != nil {
		return errors.Join(err, i.kubectl(ctx, i.cluster.Progress, "describe", "service/web", "--namespace", i.namespace))
	}
	out, err := i.prepare(ctx, i.cluster.path("bin", "kubectl"), "get", "service/web", "--namespace", i.namespace, "--output", "jsonpath="+address).Output()
	if err != nil {
		return fmt.Errorf("read the address of the Service: %w", err)
	}
	i.address = string(out)
	for {
		answer, err := i.cluster.Exec(ctx, ClientHost, i.cluster.path("bin", "guest"), "get", "http://"+i.address)
		if err == nil {
			fmt.Fprintf(note, "%s\n", answer)
			return nil
		}
		if pause(ctx) != nil {
			return fmt.Errorf("get an answer from %s: %w", i.address, err)
		}
	}
}

// sandboxCommand is what people call for this cluster.
func (i *installation) sandboxCommand() string {
	if i.cluster.Name == "fairlead" {
		return "sandbox"
	}
	return "sandbox --name " + i.cluster.Name
}

func (i *installation) tellNext() {
	fmt.Fprintf(i.cluster.Progress, `
The Service "web" has the address %[1]s and answers requests. Try:

  export KUBECONFIG=%[2]s PATH=%[3]s:$PATH
  kubectl get services,pools,agents
  kubectl describe service web
  %[4]s exec client guest get http://%[1]s

See it in a browser on this machine, live:

  kubectl fairlead ui

Pull the cable of the node that announces it, and watch the address move. Until
Kubernetes detects the failure, every third connection goes to the pod on that node:

  %[4]s cut $(kubectl get events --field-selector involvedObject.name=web,source=fairlead-agent --sort-by .lastTimestamp --output jsonpath='{.items[-1:].source.host}')
  %[4]s exec client guest get http://%[1]s
  kubectl describe service web

Continue with docs/tutorial.md. "%[4]s down" removes the cluster.
`, i.address, i.cluster.Kubeconfig(), i.cluster.path("bin"), i.sandboxCommand())
}

func (i *installation) kubectl(ctx context.Context, note io.Writer, args ...string) error {
	return i.command(ctx, note, i.cluster.path("bin", "kubectl"), args...)
}

func (i *installation) helm(ctx context.Context, note io.Writer, args ...string) error {
	return i.command(ctx, note, "go", append([]string{"tool", "-modfile=tools.mod", "helm"}, args...)...)
}

// command runs a program in the checkout, as administrator of the cluster.
func (i *installation) command(ctx context.Context, note io.Writer, name string, args ...string) error {
	cmd := i.prepare(ctx, name, args...)
	var output strings.Builder
	cmd.Stdout = io.MultiWriter(note, &output)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, tailOf(strings.Split(strings.TrimSpace(output.String()), "\n")))
	}
	return nil
}

func (i *installation) prepare(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = i.checkout
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.cluster.Kubeconfig(), "CGO_ENABLED=0")
	return cmd
}
