// Package tool has the commands for people: kubectl fairlead, and fairlead itself. They
// read the cluster once, ask package snapshot, and print its answer as text, JSON or
// YAML. They write nothing to the cluster, except for "check --on-nodes".
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"fairlead.io/internal/config"
	"fairlead.io/internal/snapshot"
)

// Exit is an error that is only an exit code: everything has been said.
type Exit snapshot.Health

func (e Exit) Error() string {
	if snapshot.Health(e) == snapshot.Problems {
		return "there are problems"
	}
	return "not everything is known"
}

// ExitCode of an error of a command: 0 healthy, 1 problems, 2 unknown, as when the
// cluster cannot be read.
func ExitCode(err error) int {
	var e Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return int(e)
	}
	return int(snapshot.Unknown)
}

// options of commands. None has all of them as flags.
type options struct {
	version                        string
	kubeconfig, context, namespace string
	configFile, metallbNamespace   string
	output                         string
	timeout                        time.Duration
	// brief makes at most ten lists; routes has all objects about BGP read.
	brief, routes bool
	// drained is the node of a planned drain.
	drained string
	clouds  map[config.Backend]snapshot.Cloud
}

// Commands returns all commands for people.
func Commands(version string) []*cobra.Command {
	all := []*cobra.Command{newStatus(version), newWhy(version), newIP(version), newPlan(version), newCheck(version), newMigrate(version), newBundle(version), newUI(version)}
	for _, c := range all {
		c.SilenceUsage, c.SilenceErrors = true, true
	}
	return all
}

// A command declares the flags that it reads, and no others.

// printing adds the flag of commands that print an answer.
func (o *options) printing(c *cobra.Command) {
	c.Flags().StringVarP(&o.output, "output", "o", "text", "text, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// connection adds the flags of commands that ask a cluster.
func (o *options) connection(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default: the current one)")
}

// limited adds the flag of commands that read the cluster once.
func (o *options) limited(c *cobra.Command) {
	c.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long reading the cluster may take")
}

// named adds the flag of commands to which objects are named.
func (o *options) named(c *cobra.Command) {
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of Services that are named without one (default: that of the context)")
}

// deciding adds the flags of commands that decide as the daemons do.
func (o *options) deciding(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.configFile, "config", "", "configuration file of the controller (default: read from the controller's pod)")
	f.StringVar(&o.metallbNamespace, "metallb-namespace", "", "namespace of MetalLB's objects (default: read from the controller's pod)")
}

// onlyWith says that flags are given which count only with another one.
func onlyWith(c *cobra.Command, with string, names ...string) error {
	for _, name := range names {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s is only for %s", name, with)
		}
	}
	return nil
}

// client returns how to reach the API server, and the namespace of the context.
func (o *options) client() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context, Context: clientcmdapi.Context{Namespace: o.namespace}})
	c, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("unknown: no cluster to ask: there is no kubeconfig; name one with --kubeconfig or $KUBECONFIG")
	}
	if err != nil {
		return nil, "", fmt.Errorf("unknown: no cluster to ask: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("unknown: no cluster to ask: %w", err)
	}
	c.UserAgent = "kubectl-fairlead/" + o.version
	c.QPS, c.Burst = 50, 100
	return c, namespace, nil
}

func (o *options) checkOutput() error {
	if o.output != "text" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output is %q, must be text, json or yaml", o.output)
	}
	return nil
}

// read reads the cluster.
func (o *options) read(ctx context.Context) (s *snapshot.Snapshot, namespace string, err error) {
	if err := o.checkOutput(); err != nil {
		return nil, "", err
	}
	from, namespace, err := o.source()
	if err != nil {
		return nil, "", err
	}
	from.Clouds, from.Brief, from.Projects, from.Routes, from.Drained = o.clouds, o.brief, !o.brief, o.routes, o.drained
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if s, err = snapshot.Read(ctx, from); err != nil {
		return nil, "", fmt.Errorf("unknown: %w", err)
	}
	return s, namespace, nil
}

// source says where to read, and what the namespace of the context is.
func (o *options) source() (from snapshot.Options, namespace string, err error) {
	if o.configFile != "" {
		if from.Config, err = config.Load(o.configFile); err != nil {
			return from, "", err
		}
	}
	if from.MetalLBNamespace, err = o.checkedNamespace(); err != nil {
		return from, "", err
	}
	from.REST, namespace, err = o.client()
	return from, namespace, err
}

// checkedNamespace is that of MetalLB's objects. A name that no namespace can have would be one
// without objects.
func (o *options) checkedNamespace() (string, error) {
	if name := o.metallbNamespace; name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return "", fmt.Errorf("--metallb-namespace is %q, which is not the name of a namespace", name)
	}
	return o.metallbNamespace, nil
}

// answer is what a command prints.
type answer interface{ Health() snapshot.Health }

// print prints an answer, and returns what it comes to as an Exit.
func (o *options) print(c *cobra.Command, kind string, a answer, text func(*page)) error {
	out := c.OutOrStdout()
	if o.output == "text" {
		text(newPage(out))
	} else if err := document(out, o.output, kind, a); err != nil {
		return err
	}
	if h := a.Health(); h != snapshot.Healthy {
		return Exit(h)
	}
	return nil
}

// terminal returns the width of a terminal, and whether out is one.
func terminal(out io.Writer) (width int, is bool) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil
}

// Message is what to tell of an error of a command; "" if all has been said.
func Message(err error) string {
	var e Exit
	if err == nil || errors.As(err, &e) {
		return ""
	}
	return "fairlead: " + err.Error()
}
