// Command release makes releases of Fairlead: create tests a commit and builds everything
// into dist/, sign signs that, upload sends it to a registry. docs/release.md is for people.
// What it builds follows from the commit and the version of Go; it knows no clock.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Getenv, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

// command is the whole program. Secrets come from the environment only.
func command(getenv func(string) string, log io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use: "release", Short: "Create, sign and upload releases of Fairlead",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(log)
	dist := root.PersistentFlags().String("dist", "dist", "directory of the release, from the root of the checkout")
	in := func(run func(ctx context.Context, repo repository, dist string, args []string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			repo, err := findRepository(c.Context(), ".")
			if err != nil {
				return err
			}
			dir := *dist
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(repo.dir, dir)
			}
			return run(c.Context(), repo, dir, args)
		}
	}
	root.AddCommand(createCommand(in, getenv, log), signCommand(in, getenv, log), uploadCommand(in, getenv, log), pluginCommand(in))
	return root
}

type runner func(run func(ctx context.Context, repo repository, dist string, args []string) error) func(*cobra.Command, []string) error

func createCommand(in runner, getenv func(string) string, log io.Writer) *cobra.Command {
	c := creation{log: log}
	cmd := &cobra.Command{
		Use:   "create patch|minor|major",
		Short: "Test a commit and build a release of it into dist/",
		Long: "Test a commit and build a release of it into dist/: images, chart, manifests, plugin, SBOMs, notes.\n" +
			"FAIRLEAD_REGISTRY says where images and charts belong, FAIRLEAD_DOWNLOADS where people find the files.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("create needs one argument, patch, minor or major; it got %d", len(args))
			}
			_, err := next(nil, args[0], false)
			return err
		},
		RunE: in(func(ctx context.Context, repo repository, dist string, args []string) error {
			c.part, c.dist = args[0], dist
			return create(ctx, repo, c, getenv)
		}),
	}
	cmd.Flags().BoolVar(&c.pre, "pre", false, "create a pre-release, from any branch")
	cmd.Flags().StringVar(&c.ref, "ref", "", "branch to release, of this checkout or else of origin; default: main, and with --pre the one that is checked out")
	cmd.Flags().StringVar(&c.tests, "test-command", defaultTests, "tests to run first; a release with others than the default is not uploaded")
	return cmd
}

func signCommand(in runner, getenv func(string) string, log io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "sign", Short: "Sign the release in dist/ with FAIRLEAD_SIGNING_KEY", Args: cobra.NoArgs,
		RunE: in(func(_ context.Context, _ repository, dist string, _ []string) error { return sign(dist, getenv, log) }),
	}
}

func uploadCommand(in runner, getenv func(string) string, log io.Writer) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "upload", Short: "Upload the release in dist/ as FAIRLEAD_REGISTRY_USER with FAIRLEAD_REGISTRY_PASSWORD", Args: cobra.NoArgs,
		RunE: in(func(ctx context.Context, repo repository, dist string, _ []string) error {
			return upload(ctx, repo, dist, dry, getenv, log)
		}),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check everything, log in, and say what would be uploaded")
	return cmd
}

func pluginCommand(in runner) *cobra.Command {
	var out, version, url, platforms string
	cmd := &cobra.Command{
		Use: "plugin", Short: "Build only the plugin of kubectl, with a manifest for krew", Args: cobra.NoArgs,
		RunE: in(func(ctx context.Context, repo repository, _ string, _ []string) error {
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			p := plugins{builder{repo.dir, version}, url, time.Unix(0, 0), strings.Fields(platforms)}
			return p.write(ctx, out, "fairlead.yaml", func(string, string) error { return nil })
		}),
	}
	cmd.Flags().StringVar(&out, "out", "bin/plugin", "directory to write to")
	cmd.Flags().StringVar(&version, "version", "v0.1.0", "version of the plugin; krew wants one such as v1.2.3")
	cmd.Flags().StringVar(&url, "url", "https://example.invalid/fairlead/v0.1.0", "where the archives will be")
	cmd.Flags().StringVar(&platforms, "platforms", pluginPlatforms, "systems to build for")
	return cmd
}
