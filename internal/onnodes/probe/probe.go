// Package probe looks at the node on which it runs: at the kernel, and at whether other
// nodes answer. It runs in the pods of package onnodes, in the network of the node, with
// the capability NET_ADMIN. It changes nothing: what it makes in nftables it removes in the
// same transaction.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/nft"
	"fairlead.io/internal/onnodes"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

// Options of a node's check.
type Options struct {
	Node  string
	Peers []onnodes.Peer
	// Nonce is the same on all nodes of one check.
	Nonce string
	Port  int
	// For is how long other nodes may take to answer.
	For time.Duration
}

// Run checks the node. It returns when all other nodes have answered, or time is over.
func Run(ctx context.Context, o Options) *onnodes.Report {
	r := &onnodes.Report{}
	add := func(name string, mark snapshot.Mark, fact, fix string) {
		r.Results = append(r.Results, onnodes.Result{Name: name, Mark: mark, Fact: fact, Fix: fix})
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		add("kernel", snapshot.Unclear, "unknown: "+err.Error(), "")
	} else {
		add("kernel", snapshot.Passed, "Linux "+unix.ByteSliceToString(uts.Release[:]), "")
	}
	switch err := nft.Try(); {
	case err == nil:
		add("nftables", snapshot.Passed, "the kernel accepts the tables of the agent", "")
	case errors.Is(err, nft.ErrThere):
		add("nftables", snapshot.Passed, "an agent has its tables here", "")
	default:
		add("nftables", snapshot.Failed, err.Error(), "Load the module nf_tables, or use a kernel that has it.")
	}
	mark, fact, fix := sysctls(ctx)
	add("sysctls", mark, fact, fix)
	mark, fact, fix = gossip(ctx, o)
	add("gossip", mark, fact, fix)
	return r
}

// sysctls says whether settings of the node keep its kernel from answering or forwarding.
func sysctls(ctx context.Context) (mark snapshot.Mark, fact, fix string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links, err := link.Watch(ctx)
	if err != nil {
		return snapshot.Unclear, "unknown: " + err.Error(), ""
	}
	var wrong []string
	checked := 0
	for _, l := range links.List() {
		if !l.Up || l.Loopback || l.Slave || !l.Global[lb.IPv4] {
			continue
		}
		checked++
		if silent := l.Silent[lb.IPv4]; silent != "" {
			wrong = append(wrong, silent)
		}
	}
	if forwards, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err == nil && strings.TrimSpace(string(forwards)) == "0" {
		wrong = append(wrong, "net.ipv4.ip_forward is 0")
	}
	if len(wrong) > 0 {
		return snapshot.Failed, prose.Clauses(wrong), "Change them: sysctl -w."
	}
	return snapshot.Passed, fmt.Sprintf("nothing keeps the kernel from answering, and from forwarding (%d interfaces checked)", checked), ""
}
