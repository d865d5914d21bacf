package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdSocket is where etcd serves, relative to the working directory: "host"
// of the URL, because a client dials host and path joined.
const etcdSocket = "unix://etcd.sock"

// startEtcd starts etcd inside this process and waits until it serves. The
// channel returns the error with which it ends.
func (c *controlPlane) startEtcd(ctx context.Context) (<-chan error, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(c.dir, "etcd")
	cfg.LogLevel = "error"
	cfg.UnsafeNoFsync = c.noFsync
	// A lone member waits one election time-out for rivals that do not exist.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	client, err := url.Parse(etcdSocket)
	if err != nil {
		return nil, fmt.Errorf("parse the socket of etcd: %w", err)
	}
	cfg.ListenClientUrls = []url.URL{*client}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: "etcd-peer.sock"}}
	// Nobody uses what it advertises: it has no peers, and its client knows the socket.
	// Before etcd 3.7 this must be a host and a port.
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd.Err(), nil
	case <-etcd.Server.StopNotify():
		return nil, errors.New("etcd stopped before it was ready")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
