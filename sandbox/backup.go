package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies what etcd has, and starts the server again. The copy goes with the
// server's files.
func (a *API) Backup(ctx context.Context) (path string, err error) {
	if err := a.Kill(); err != nil {
		return "", err
	}
	if path, err = os.MkdirTemp(a.dir, "backup-"); err != nil {
		return "", fmt.Errorf("back up etcd: %w", err)
	}
	path = filepath.Join(path, "data")
	if err := copyFiles(path, a.data()); err != nil {
		return "", fmt.Errorf("back up etcd: %w", err)
	}
	return path, a.Restart(ctx)
}

// Restore has the server begin again with what etcd had at the time of a backup. All
// that was written since is lost, and resourceVersions are given a second time.
func (a *API) Restore(ctx context.Context, backup string) error {
	if err := a.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(a.data()); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := copyFiles(a.data(), backup); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	return a.Restart(ctx)
}

func (a *API) data() string { return filepath.Join(a.dir, "data") }

// copyFiles copies directories and files; what a server listens on it makes anew.
func copyFiles(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}
