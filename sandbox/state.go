package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// state is what Up keeps about a cluster, in StateDir/sandbox.json. What runs
// is never written down but looked up: see processes.go.
type state struct {
	Nodes       int      `json:"nodes"`
	Port        uint16   `json:"port"` // on 127.0.0.1, leads to the API server
	Cloud       string   `json:"cloud,omitempty"`
	CloudFlags  []string `json:"cloudFlags,omitempty"`
	Network     string   `json:"network,omitempty"`
	ProxyMode   string   `json:"proxyMode,omitempty"`
	Routers     string   `json:"routers,omitempty"`
	SingleStack bool     `json:"singleStack,omitempty"`
	CloudPort   uint16   `json:"cloudPort,omitempty"` // on 127.0.0.1, leads to the cloud's API
	BootID      string   `json:"bootID"`              // of the machine: nothing survives its reboot
	Up          bool     `json:"up"`                  // Up has come to its end
}

var errNotUp = errors.New("it is not up")

func (c *Cluster) readState() (state, error) {
	var s state
	content, err := os.ReadFile(c.path("sandbox.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, errNotUp
	}
	if err != nil {
		return s, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("read state: %w", err)
	}
	return s, nil
}

func (c *Cluster) writeState(s state) error {
	content, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if err := replaceFile(c.path("sandbox.json"), content, 0o644); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// open makes sure that the cluster has been started and takes over with how
// many nodes, in which cloud, and with which network.
func (c *Cluster) open() error {
	if err := c.complete(); err != nil {
		return err
	}
	s, err := c.readState()
	if err == nil && (!s.Up || s.BootID != bootID()) {
		err = errNotUp
	}
	if err != nil {
		return fmt.Errorf("open the sandbox %s: %w", c.Name, err)
	}
	if c.Nodes != s.Nodes || c.Cloud != s.Cloud || c.Network != s.Network || c.Routers != s.Routers || c.SingleStack != s.SingleStack { // readers may be at work
		c.Nodes, c.Cloud, c.Network, c.Routers, c.SingleStack = s.Nodes, s.Cloud, s.Network, s.Routers, s.SingleStack
	}
	if s.ProxyMode != "" && c.ProxyMode != s.ProxyMode {
		c.ProxyMode = s.ProxyMode
	}
	return nil
}

func bootID() string {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// replaceFile writes a file so that readers see either the old or the new.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	if err := os.WriteFile(path+".new", content, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// pause is the time between two looks at something that will change soon.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}
