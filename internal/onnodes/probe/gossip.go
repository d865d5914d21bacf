package probe

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/onnodes"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

const (
	// again is how often a node that has not answered is asked again, and how long one
	// question may take.
	again = 500 * time.Millisecond
	// linger is how long a node answers others after all have answered it.
	linger = 3 * time.Second
)

// gossip says whether the other nodes answer on the port of the agents, by UDP and TCP, and
// whether this one can listen there.
func gossip(ctx context.Context, o Options) (mark snapshot.Mark, fact, fix string) {
	ctx, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	self := slices.IndexFunc(o.Peers, func(p onnodes.Peer) bool { return p.Node == o.Node })
	if self < 0 {
		return snapshot.Unclear, "unknown: the node has no address", ""
	}
	at := net.JoinHostPort(o.Peers[self].Address, strconv.Itoa(o.Port))
	stop, err := answer(at, o.Nonce)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return snapshot.Skipped, fmt.Sprintf("port %d is in use: by an agent, or by another program. If agents run, kubectl fairlead status says whether they hear each other", o.Port), ""
	case err != nil:
		return snapshot.Failed, err.Error(), ""
	}
	defer stop()
	others := slices.Delete(slices.Clone(o.Peers), self, self+1)
	silent := ask(ctx, others, o)
	if len(silent) > 0 {
		return snapshot.Failed, fmt.Sprintf("%d of %d nodes do not answer on port %d: %s", len(silent), len(others), o.Port, prose.Clauses(silent)),
			fmt.Sprintf("Allow port %d, UDP and TCP, between nodes.", o.Port)
	}
	select { // others may still be asking
	case <-ctx.Done():
	case <-time.After(linger):
	}
	return snapshot.Passed, fmt.Sprintf("%d other nodes answer on port %d, by UDP and TCP", len(others), o.Port), ""
}

// answer answers questions with the nonce by UDP and TCP, until stop is called.
func answer(at, nonce string) (stop func(), err error) {
	packets, err := net.ListenPacket("udp", at)
	if err != nil {
		return nil, err
	}
	streams, err := net.Listen("tcp", at)
	if err != nil {
		return nil, errors.Join(err, packets.Close())
	}
	var running sync.WaitGroup
	running.Go(func() {
		buffer := make([]byte, 256)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if isQuestion(buffer[:n], nonce) {
				_, _ = packets.WriteTo(answerTo(nonce), from)
			}
		}
	})
	running.Go(func() {
		for {
			c, err := streams.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(again))
				buffer := make([]byte, len(question(nonce)))
				if _, err := io.ReadFull(c, buffer); err == nil && isQuestion(buffer, nonce) {
					_, _ = c.Write(answerTo(nonce))
				}
			})
		}
	})
	return func() {
		_, _ = packets.Close(), streams.Close()
		running.Wait()
	}, nil
}

func question(nonce string) []byte { return []byte("fairlead? " + nonce) }
func answerTo(nonce string) []byte { return []byte("fairlead! " + nonce) }

func isQuestion(data []byte, nonce string) bool {
	return subtle.ConstantTimeCompare(data, question(nonce)) == 1
}

// ask asks all nodes until they have answered by both protocols, or ctx ends. It returns
// who has not, and by what.
func ask(ctx context.Context, others []onnodes.Peer, o Options) []string {
	silent := make([]string, len(others))
	var running sync.WaitGroup
	for i, p := range others {
		running.Go(func() {
			for _, protocol := range []string{"udp", "tcp"} {
				if !asked(ctx, protocol, net.JoinHostPort(p.Address, strconv.Itoa(o.Port)), o.Nonce) {
					silent[i] = fmt.Sprintf("%s (%s) by %s", p.Node, p.Address, protocol)
					return
				}
			}
		})
	}
	running.Wait()
	return slices.DeleteFunc(silent, func(s string) bool { return s == "" })
}

// asked asks one node until it answers.
func asked(ctx context.Context, protocol, at, nonce string) bool {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		if answered(ctx, protocol, at, nonce) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func answered(ctx context.Context, protocol, at, nonce string) bool {
	c, err := (&net.Dialer{Timeout: again}).DialContext(ctx, protocol, at)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(again)); err != nil {
		return false
	}
	if _, err := c.Write(question(nonce)); err != nil {
		return false
	}
	buffer := make([]byte, len(answerTo(nonce)))
	_, err = io.ReadFull(c, buffer)
	return err == nil && string(buffer) == string(answerTo(nonce))
}
