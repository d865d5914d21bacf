package sandbox

import (
	"context"
	"fmt"
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
	if err := os.CopyFS(path, os.DirFS(a.data())); err != nil {
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
	if err := os.CopyFS(a.data(), os.DirFS(backup)); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	return a.Restart(ctx)
}

func (a *API) data() string { return filepath.Join(a.dir, "data") }
