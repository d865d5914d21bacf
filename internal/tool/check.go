package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/config"
	"fairlead.io/internal/onnodes"
	"fairlead.io/internal/snapshot"
)

func newCheck(version string) *cobra.Command {
	o := options{version: version}
	var files []string
	var into string
	on := onnodes.Options{}
	var onNodes bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check a cluster before an installation, or files before they are applied",
		Long: `Without -f, checks whether Fairlead can be installed in the cluster: its version, other
load balancers that serve the same Services, ports, and the admission of pods.

With -f, checks files: pools of all formats and whether they overlap, advertisements, EIps,
Services and the annotations that nothing reads. It needs no cluster.

With --on-nodes, also checks the nodes: kernel, sysctls, nftables, and whether the nodes
reach each other on the port of the agents. This is the one command that writes to the
cluster: it makes a DaemonSet in the namespace of the installation, which needs the image
of Fairlead, and removes it at the end. Without agents' ports being free, or without an
answer in time, a node is SKIP.

What was not checked is SKIP, with the reason. Exits with 0 if all is well, 1 if there
are problems, 2 if not everything is known.`,
		Example: `  kubectl fairlead check
  kubectl fairlead check --on-nodes --image registry.example/fairlead:0.1.0
  kubectl fairlead check -f manifests/`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.limited(c)
	o.printing(c)
	f := c.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects in files that have none")
	f.StringVar(&o.configFile, "config", "", "configuration file of the controller, to check files with (default: that of the chart)")
	f.StringVar(&o.metallbNamespace, "metallb-namespace", "", "namespace of MetalLB's objects in files (default: metallb-system)")
	f.StringArrayVarP(&files, "filename", "f", nil, "file or directory to check, - is standard input; repeatable")
	f.StringVar(&into, "install-namespace", "fairlead-system", "namespace to install Fairlead in")
	f.BoolVar(&onNodes, "on-nodes", false, "also run a pod on each node for a moment, which checks it")
	f.StringVar(&on.Image, "image", defaultImage, "image of Fairlead for --on-nodes")
	f.IntVar(&on.Port, "gossip-port", 7947, "port of the nodes that agents will use")
	f.DurationVar(&on.Wait, "wait", 2*time.Minute, "how long the pods of --on-nodes may take")
	c.MarkFlagsMutuallyExclusive("filename", "on-nodes")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var all *snapshot.Checks
		err := o.checkOutput()
		if err != nil {
			return err
		}
		if len(files) > 0 {
			err = onlyWith(c, "clusters, not for files", "install-namespace", "gossip-port")
		} else {
			err = onlyWith(c, "files (-f)", "namespace", "config", "metallb-namespace")
		}
		if err == nil && !onNodes {
			err = onlyWith(c, "--on-nodes", "image", "wait")
		}
		if err != nil {
			return err
		}
		if len(files) > 0 {
			all, err = o.checkFiles(c.InOrStdin(), files)
		} else {
			all, err = o.checkCluster(c.Context(), into, on.Port, onNodes)
			if err == nil && onNodes {
				on.Namespace = into
				err = o.checkNodes(c.Context(), on, all)
			}
		}
		if err != nil {
			return fmt.Errorf("unknown: %w", err)
		}
		return o.print(c, "Checks", all, func(p *page) { printChecks(p, all) })
	}
	return c
}

// defaultImage is the one that the chart names.
const defaultImage = "fairlead.invalid/fairlead:0.1.0"

// checkNodes adds what pods on all nodes found.
func (o *options) checkNodes(ctx context.Context, on onnodes.Options, all *snapshot.Checks) error {
	rest, _, err := o.client()
	if err != nil {
		return err
	}
	if on.Kube, err = kubernetes.NewForConfig(rest); err != nil {
		return err
	}
	return onnodes.Run(ctx, on, all)
}

func (o *options) checkCluster(ctx context.Context, namespace string, port int, onNodes bool) (*snapshot.Checks, error) {
	rest, _, err := o.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	all, err := snapshot.CheckCluster(ctx, rest, namespace, port)
	if err == nil && !onNodes {
		all.Checks = append(all.Checks, snapshot.Check{Name: "nodes", Mark: snapshot.Skipped, Fact: "kernel, sysctls, nftables and gossip between nodes are only checked with --on-nodes"})
	}
	return all, err
}

func (o *options) checkFiles(stdin io.Reader, names []string) (*snapshot.Checks, error) {
	served := config.Default()
	if o.configFile != "" {
		var err error
		if served, err = config.Load(o.configFile); err != nil {
			return nil, err
		}
	}
	var all []snapshot.File
	for _, name := range names {
		found, err := readFiles(stdin, name)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	metallb, err := o.checkedNamespace()
	if err != nil {
		return nil, err
	}
	return snapshot.CheckFiles(served, all, o.namespace, metallb)
}

// readFiles reads a file, or all YAML and JSON files of a directory and those below.
func readFiles(stdin io.Reader, name string) (out []snapshot.File, err error) {
	if name == "-" {
		data, err := io.ReadAll(stdin)
		return []snapshot.File{{Name: "standard input", Data: data}}, err
	}
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if ext := filepath.Ext(path); path != name && ext != ".yaml" && ext != ".yml" && ext != ".json" {
			return nil
		}
		data, err := os.ReadFile(path)
		out = append(out, snapshot.File{Name: path, Data: data})
		return err
	})
	if err == nil && len(out) == 0 {
		err = errors.New(name + " has no YAML or JSON file")
	}
	return out, err
}

func printChecks(p *page, all *snapshot.Checks) { printEach(p, all.Checks) }

func printEach(p *page, all []snapshot.Check) {
	for _, x := range all {
		sign, colour := mark(x.Mark)
		if x.Mark == snapshot.Skipped {
			sign = "SKIP"
		}
		text := x.Name + ": "
		if x.Reason != "" && x.Mark == snapshot.Failed {
			text += x.Reason + ": "
		}
		p.line(colour, sign+" ", text+strings.ReplaceAll(x.Fact, "\n", "; "))
		if x.Fix != "" {
			p.line(bold, "  → ", x.Fix)
		}
	}
}
