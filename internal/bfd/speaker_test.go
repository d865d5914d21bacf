package bfd

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	nodeAddr   = netip.MustParseAddr("192.0.2.11")
	routerAddr = netip.MustParseAddr("192.0.2.1")
	toRouter   = Peer{Local: nodeAddr, Remote: routerAddr}
	toNode     = Peer{Local: routerAddr, Remote: nodeAddr}
)

// bubble has a node and a router, both of them ours, in virtual time.
type bubble struct {
	*cable
	node, router *Speaker
}

func inBubble(t *testing.T, f func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCable()
		b := &bubble{cable: c, node: New(t.Context(), Options{Wire: c}), router: New(t.Context(), Options{Wire: c})}
		defer func() {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			b.node.Close(ended)
			b.router.Close(ended)
			c.wait.Wait()
		}()
		f(t, b)
	})
}

// both starts a session at both ends and waits until it is up.
func (b *bubble) both(t *testing.T, p Profile) {
	t.Helper()
	b.node.Set(map[Peer]Profile{toRouter: p})
	b.router.Set(map[Peer]Profile{toNode: p})
	after(5 * time.Second)
	b.is(t, b.node, Up)
	b.is(t, b.router, Up)
}

// after lets time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bubble) is(t *testing.T, s *Speaker, want State) Status {
	t.Helper()
	all := s.Statuses()
	if len(all) != 1 || all[0].State != want {
		t.Fatalf("%+v, want one that is %s", all, want)
	}
	return all[0]
}

func says(t *testing.T, s Status, code, words string) {
	t.Helper()
	if s.Reason == nil || string(s.Reason.Code) != code || !strings.Contains(s.Reason.Text, words) {
		t.Errorf("reason %v, want %s: … %s …", s.Reason, code, words)
	}
}

func TestUpAndSteady(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.both(t, fastProfile)
		before := b.count(nodeAddr)
		after(time.Minute)
		s := b.is(t, b.node, Up)
		if s.Ups != 1 || s.Downs != 0 || s.Reason != nil || s.Interval != fast || s.Detection != 3*fast {
			t.Errorf("%+v", s)
		}
		// 50 ms less 12.5 % on average: 1371 packets a minute.
		if n := b.count(nodeAddr) - before; n < 1200 || n > 1600 {
			t.Errorf("%d packets in a minute", n)
		}
	})
}

func TestCableCut(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.both(t, fastProfile)
		<-b.node.News()
		b.set(func() { b.cut[routerAddr], b.cut[nodeAddr] = true, true })
		after(3*fast - 51*time.Millisecond)
		b.is(t, b.node, Up)
		after(51 * time.Millisecond)
		says(t, b.is(t, b.node, Down), "BFDDown", "nothing was heard from it for 150ms")
		if s := b.is(t, b.node, Down); s.Downs != 1 {
			t.Errorf("%d failures", s.Downs)
		}
		select {
		case <-b.node.News():
		default:
			t.Error("no news")
		}
		before := b.count(nodeAddr)
		after(time.Minute)
		if n := b.count(nodeAddr) - before; n < 55 || n > 85 {
			t.Errorf("%d packets in a minute while down, about one a second is right", n)
		}
		b.set(func() { clear(b.cut) })
		after(2 * time.Second)
		b.is(t, b.node, Up)
		b.is(t, b.router, Up)
	})
}

// One direction is lost: the end that hears nothing tells the other.
func TestOneDirectionLost(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.both(t, fastProfile)
		<-b.node.News()
		b.set(func() { b.cut[nodeAddr] = true })
		<-b.node.News()
		says(t, b.is(t, b.node, Down), "BFDDown", "it reports the session as down (control detection time expired)")
		after(5 * time.Second)
		says(t, b.is(t, b.node, Init), "BFDDown", "it does not hear this node")
	})
}

func TestEndsAreNotFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.both(t, fastProfile)
		b.set(func() { b.cut[nodeAddr] = true }) // the first packet about it is lost
		b.node.Set(nil)
		b.set(func() { b.cut[nodeAddr] = false })
		after(3 * fast)
		s := b.is(t, b.router, Down)
		says(t, s, "BFDAdminDown", "BFD was disabled on 192.0.2.11")
		if s.Downs != 0 {
			t.Error("counted as a failure")
		}
		before := b.count(nodeAddr)
		after(time.Minute)
		if n := b.count(nodeAddr) - before; n != 0 {
			t.Errorf("%d packets after the end", n)
		}
		b.node.Set(map[Peer]Profile{toRouter: fastProfile})
		after(5 * time.Second)
		b.is(t, b.router, Up)
		b.node.Set(nil) // and back while the router is still being told
		b.node.Set(map[Peer]Profile{toRouter: fastProfile})
		after(5 * time.Second)
		b.is(t, b.node, Up)
		b.is(t, b.router, Up)
	})
}

// Other intervals reach the peer by a Poll Sequence, and nothing goes down, however often.
func TestProfileChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.both(t, fastProfile)
		for _, d := range []time.Duration{300, 50, 1000, 60, 20, 2000, 50} {
			d *= time.Millisecond
			b.node.Set(map[Peer]Profile{toRouter: {Transmit: d, Receive: d, Multiplier: 3}})
			after(10 * time.Second)
			s := b.is(t, b.node, Up)
			if want := max(d, fast); s.Interval != want || s.Detection != 3*want || s.Downs != 0 {
				t.Errorf("%v: %+v", d, s)
			}
			if s := b.is(t, b.router, Up); s.Downs != 0 || s.Detection != 3*max(d, fast) {
				t.Errorf("%v: router %+v", d, s)
			}
		}
		b.node.Set(map[Peer]Profile{toRouter: {Transmit: fast, Receive: fast, Multiplier: 10}})
		after(time.Second)
		if s := b.is(t, b.router, Up); s.Detection != 10*fast {
			t.Errorf("multiplier 10: %+v", s)
		}
	})
}

func TestPassive(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		passive := fastProfile
		passive.Passive = true
		b.node.Set(map[Peer]Profile{toRouter: passive})
		after(time.Minute)
		if n := b.count(nodeAddr); n != 0 {
			t.Errorf("%d packets before the peer has spoken", n)
		}
		says(t, b.is(t, b.node, Down), "BFDDown", "passiveMode")
		b.router.Set(map[Peer]Profile{toNode: fastProfile})
		after(5 * time.Second)
		b.is(t, b.node, Up)
	})
}

// Without beats nothing is sent, and the router gives the node up.
func TestStandsStill(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var stands atomic.Bool
		b.node = New(t.Context(), Options{Wire: b.cable, Beats: func() bool { return !stands.Load() }})
		b.both(t, fastProfile)
		stands.Store(true)
		after(3*fast + 10*time.Millisecond)
		b.is(t, b.router, Down)
		stands.Store(false)
		after(5 * time.Second)
		b.is(t, b.router, Up)
	})
}

func TestWhySessionsDoNotComeUp(t *testing.T) {
	for name, c := range map[string]struct {
		prepare     func(b *bubble)
		code, words string
	}{
		"silence":    {func(b *bubble) { b.cut[nodeAddr] = true }, "BFDDown", "it has not answered yet"},
		"no BFD":     {func(*bubble) {}, "BFDDown", "does not listen on UDP port 3784"},
		"far away":   {func(b *bubble) { b.ttl = 254; b.router.Set(map[Peer]Profile{toNode: fastProfile}) }, "BFDDown", "TTL or hop limit is too low"},
		"port taken": {func(b *bubble) { b.errs[nodeAddr] = syscall.EADDRINUSE }, "BFDPortTaken", "UDP port 3784 of 192.0.2.11"},
		"no address": {func(b *bubble) { b.errs[nodeAddr] = syscall.EADDRNOTAVAIL }, "BFDDown", "this node does not have the address 192.0.2.11"},
		"no socket":  {func(b *bubble) { b.errs[nodeAddr] = syscall.EMFILE }, "BFDDown", "cannot be opened: too many open files"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				c.prepare(b)
				b.node.Set(map[Peer]Profile{toRouter: fastProfile})
				after(5 * time.Second)
				says(t, b.is(t, b.node, Down), c.code, c.words)
			})
		})
	}
}

// A port that another daemon has is taken when it was free for a while, not at once.
func TestPortTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.errs[nodeAddr] = syscall.EADDRINUSE
		b.router.Set(map[Peer]Profile{toNode: fastProfile})
		b.node.Set(map[Peer]Profile{toRouter: fastProfile})
		after(time.Minute)
		b.set(func() { b.errs[nodeAddr] = nil })
		after(15 * time.Second) // the other daemon is restarted
		says(t, b.is(t, b.node, Down), "BFDPortTaken", "another BFD daemon")
		b.set(func() { b.errs[nodeAddr] = syscall.EADDRINUSE })
		after(15 * time.Second)
		b.set(func() { b.errs[nodeAddr] = nil })
		after(45 * time.Second)
		b.is(t, b.node, Up)
		if n := b.opened[nodeAddr]; n > 16 {
			t.Errorf("%d tries in 135 s", n)
		}
	})
}

// A session that has nobody to tell ends at once, whatever it waits for.
func TestEndsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.errs[nodeAddr] = syscall.EADDRINUSE
		b.node.Set(map[Peer]Profile{toRouter: fastProfile}) // the port is taken
		b.router.Set(map[Peer]Profile{toNode: fastProfile}) // nobody answers
		after(time.Second)
		start := time.Now()
		b.node.Close(t.Context())
		b.router.Close(t.Context())
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v", d)
		}
	})
}

// A successor continues: the router notices nothing.
func TestHandover(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.both(t, fastProfile)
		was := b.is(t, b.node, Up)
		for range 3 {
			frozen := b.node.Freeze()
			after(fast)
			text, err := json.Marshal(frozen)
			if err != nil {
				t.Fatal(err)
			}
			var read Frozen
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			b.node = Continue(t.Context(), Options{Wire: b.cable}, read)
			b.node.Set(map[Peer]Profile{toRouter: fastProfile})
			after(10 * time.Second)
		}
		s := b.is(t, b.node, Up)
		if s.Ups != 1 || s.Downs != 0 || s.Sent <= was.Sent || s.Received <= was.Received {
			t.Errorf("node: %+v", s)
		}
		if s := b.is(t, b.router, Up); s.Ups != 1 || s.Downs != 0 {
			t.Errorf("router: %+v", s)
		}
		frozen := b.node.Freeze() // nobody goes on
		after(time.Second)
		b.is(t, b.router, Down)
		b.node = Continue(t.Context(), Options{Wire: b.cable}, frozen)
		after(5 * time.Second)
		if s := b.is(t, b.node, Up); s.Downs != 1 {
			t.Errorf("too late: %+v", s)
		}
	})
}

// What a predecessor hands over is checked: an older version may have written it.
func FuzzFrozen(f *testing.F) {
	f.Add([]byte(`{"Sessions":[{"Peer":{"Local":"192.0.2.11","Remote":"192.0.2.1"},"Memory":{"State":3,"Remote":3,"Mine":1,"Yours":2,"RemoteTx":50000000,"RemoteRx":50000000,"RemoteMultiplier":3},"Receive":-1,"Send":7}]}`))
	f.Add([]byte(`{"Sessions":[{"Peer":{"Local":"192.0.2.11","Remote":"192.0.2.1"},"Profile":{"Transmit":300000000,"Receive":300000000},"Memory":{"State":3,"Remote":3,"Mine":1,"Yours":2,"ToldTx":300000000,"ToldRx":300000000,"UsedTx":1,"RemoteRx":1}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var frozen Frozen
		if json.Unmarshal(text, &frozen) != nil || len(frozen.Sessions) > 10 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			c := newCable()
			s := Continue(t.Context(), Options{Wire: c}, frozen)
			after(time.Second)
			for _, n := range c.sent {
				if n > 1000 {
					t.Errorf("%d packets in a second", n)
				}
			}
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			s.Close(ended)
			c.wait.Wait()
		})
	})
}
