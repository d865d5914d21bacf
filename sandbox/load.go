package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Load gives an image, a docker-archive as [Image.WriteFile] makes it, to all
// nodes, those that are started later too. Loaded again under the same name it
// replaces the former; running containers keep theirs.
func (c *Cluster) Load(ctx context.Context, archive string) error {
	unlock, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	name := filepath.Base(archive)
	if filepath.Ext(name) != ".tar" {
		return fmt.Errorf("load %s: want an archive whose name ends in .tar", archive)
	}
	target := c.path("images", name)
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("load %s: %w", archive, err)
	}
	if err := copyFile(archive, target); err != nil {
		return fmt.Errorf("load %s: %w", archive, err)
	}
	nodes := c.nodes()
	errs := make([]error, len(nodes))
	var wait sync.WaitGroup
	for i, n := range nodes {
		pid, err := c.nodePID(n)
		if err != nil {
			return err
		}
		if pid == 0 {
			continue // it imports when it starts
		}
		wait.Go(func() {
			_, errs[i] = c.Exec(ctx, n.name, importCommand(filepath.Join(nodeState, "images", name))...)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
