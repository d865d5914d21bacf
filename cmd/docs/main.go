// Command docs makes a static site of the documentation, which needs no server. It runs in
// the root of the tree, and fails if a link leads nowhere.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"fairlead.io/docs/site"
)

// out is the directory for the site. What was there is removed.
const out = "bin/docs"

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := site.Build(os.DirFS("."))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("remove the old site: %w", err)
	}
	for name, content := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write the site: %w", err)
		}
	}
	fmt.Printf("%d files in %s; open %s\n", len(files), out, filepath.Join(out, "index.html"))
	return nil
}
