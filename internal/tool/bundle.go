package tool

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/snapshot"
)

func newBundle(version string) *cobra.Command {
	o := options{version: version}
	var file string
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Write an archive for a bug report, without secrets",
		Long: `Writes an archive with the answers of the other commands, the objects that they are
made from, and the logs of Fairlead's pods. It reads no Secret. Values of variables and
flags that may be secret, passwords of BGP peers, and annotations of others, are redacted.
Names, addresses and labels are not: look through it before you publish it.

Exits with 0 if everything could be read, 2 if something is missing in the archive: it
prints what, and the archive has it in missing.txt.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.limited(c)
	o.deciding(c)
	c.Flags().StringVar(&file, "file", "", "file to write, which must not exist (default: fairlead-bundle-TIME.tar.gz)")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		o.output = "text"
		s, _, err := o.read(c.Context())
		if err != nil {
			return err
		}
		rest, _, err := o.client()
		if err != nil {
			return err
		}
		kube, err := kubernetes.NewForConfig(rest)
		if err != nil {
			return err
		}
		if file == "" {
			file = "fairlead-bundle-" + s.At.UTC().Format("20060102-150405") + ".tar.gz"
		}
		out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		missing, err := s.Bundle(c.Context(), kube, out)
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s has the facts of %s. Look through it before you publish it.\n", file, s.At.UTC().Format(time.TimeOnly+" UTC"))
		newPage(c.OutOrStdout()).unknown(missing)
		if len(missing) > 0 {
			return Exit(snapshot.Unknown)
		}
		return nil
	}
	return c
}
