package tool

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	livepage "fairlead.io/internal/page"
	"fairlead.io/internal/snapshot"
)

func newUI(version string) *cobra.Command {
	o := options{version: version}
	var port uint16
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show everything on a page that is live",
		Long: `Serves a page on this machine, and prints its address. It shows pools, which node
announces which address, what waits and why, and what has moved. It follows the
cluster while somebody looks, with your own rights.

Only 127.0.0.1 is served, and only to who has the address: it contains a token that
counts until the command ends. Press Ctrl-C to end it.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.deciding(c)
	c.Flags().Uint16Var(&port, "port", 0, "port of 127.0.0.1 (default: a free one)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		from, _, err := o.source()
		if err != nil {
			return err
		}
		source, err := snapshot.NewWatcher(from)
		if err != nil {
			return fmt.Errorf("unknown: %w", err)
		}
		p := livepage.New(o.cluster(from.REST), source)
		defer p.Close()
		return servePage(c, p, port)
	}
	return c
}

// cluster is the name of the cluster: that of the context, or the API server.
func (o *options) cluster(api *rest.Config) string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if c, err := rules.Load(); err == nil {
		name := c.CurrentContext
		if o.context != "" {
			name = o.context
		}
		if name != "" {
			return name
		}
	}
	return api.Host
}

// servePage serves until the command ends.
func servePage(c *cobra.Command, p *livepage.Page, port uint16) error {
	l, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	only, err := livepage.NewLoopback(p, l.Addr().String())
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	srv := &http.Server{Handler: only, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(c.Context(), func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintf(c.OutOrStdout(), "%s\n\nOpen this address in a browser on this machine. Whoever has it sees what you may read\nin the cluster, until you press Ctrl-C.\n", only.URL())
	if err := srv.Serve(l); c.Context().Err() == nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
