package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
)

// nftChanges is how many changes are timed, for each 1 of rounds.
const nftChanges = 300

// nftables: how long it takes until the kernel's tables say what one more
// Service, one that is taken over, or one less changes.
func nftables(ctx context.Context, s settings) (rows []Row, err error) {
	var few, many float64
	for _, services := range []int{100, 10_000} {
		ms, err := changeOne(ctx, services, nftChanges*s.rounds)
		if err != nil {
			return nil, err
		}
		if many = median(ms); few == 0 {
			few = many
		}
		of := fmt.Sprintf("one change beside %d Services, of %d", services, len(ms))
		rows = append(rows, info(of+" the median", many, "ms"), info(of+" the 99th percentile", quantile(ms, 0.99), "ms").below(50))
	}
	return append(rows, info("one change, median beside 10000 Services to 100", many/few, "×").atMost(2)), nil
}

// changeOne fills tables of their own with dual-stack Services and returns how
// many milliseconds each change of a further one takes.
func changeOne(ctx context.Context, services, changes int) (ms []float64, err error) {
	ns, err := newNetwork()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	table, err := nft.OpenIn(slog.New(slog.DiscardHandler), int(ns.Fd()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	ports := []lb.Port{{Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 443}}
	state := nft.State{VIPs: map[netip.Addr]nft.VIP{}}
	for i := range services {
		v := nft.VIP{Ports: ports}
		if i%10 == 0 {
			v.Interfaces = []string{"eth0"}
		}
		for _, f := range lb.Families {
			state.VIPs[vip(f, i)] = v
		}
	}
	if err := table.Apply(state); err != nil {
		return nil, err
	}
	steps := []*nft.VIP{{Ports: ports}, {Ports: ports, Interfaces: []string{"eth0"}}, nil}
	for i := range changes {
		change := map[netip.Addr]*nft.VIP{}
		for _, f := range lb.Families {
			change[vip(f, services)] = steps[i%len(steps)]
		}
		began := time.Now()
		if err := errors.Join(table.Update(change), ctx.Err()); err != nil {
			return nil, err
		}
		ms = append(ms, milliseconds(time.Since(began)))
	}
	return ms, nil
}

// vip is address number i of a family.
func vip(f lb.Family, i int) netip.Addr {
	b := netip.MustParseAddr(map[lb.Family]string{lb.IPv4: "10.0.0.0", lb.IPv6: "2001:db8::"}[f]).AsSlice()
	end := b[len(b)-4:]
	binary.BigEndian.PutUint32(end, binary.BigEndian.Uint32(end)+uint32(i))
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// newNetwork makes a network namespace that ends when it is closed.
func newNetwork() (file *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("new network namespace (needs root): %w", err)
			return
		}
		file, err = os.Open("/proc/thread-self/ns/net")
	}()
	<-done
	return file, err
}
