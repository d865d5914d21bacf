package wire

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// Tests are run for both families.
var families = []struct {
	name          string
	client, owner string // prefixes
	vip, another  netip.Addr
	vipPrefix     string
	family        lb.Family
	frames        int // of an announcement
}{
	{"IPv4", "10.9.0.9/24", "10.9.0.1/24", netip.MustParseAddr("10.9.0.100"), netip.MustParseAddr("10.9.0.101"), "10.9.0.100/32", lb.IPv4, 2},
	{"IPv6", "2001:db8::9/64", "2001:db8::1/64", netip.MustParseAddr("2001:db8::100"), netip.MustParseAddr("2001:db8::101"), "2001:db8::100/128", lb.IPv6, 1},
}

// The taker has no address at all on its interface.
func TestAnnouncementMovesNeighbours(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 3)
			client, owner, taker := hosts[0], hosts[1], hosts[2]
			client.add(t, f.client)
			owner.add(t, f.owner)
			owner.add(t, f.vipPrefix)
			a, b := owner.open(t), taker.open(t)

			client.poke(t, f.vip)
			eventually(t, "the client to learn the owner", func() bool { return client.neighbour(t, f.vip) == own(t, a) })
			if err := b.Announce(f.vip); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the client to learn the taker", func() bool { return client.neighbour(t, f.vip) == own(t, b) })

			// Each form suffices, and within a second of the last change.
			ports := []*Port{a, b}
			for form := range forms(f.vip) {
				p := ports[form%2]
				if err := p.Send(f.vip, form); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the client to heed one form", func() bool { return client.neighbour(t, f.vip) == own(t, p) })
			}
		})
	}
}

func hear(t *testing.T, p *Port) Sighting {
	t.Helper()
	select {
	case s := <-p.Heard():
		return s
	case <-time.After(time.Minute):
		t.Fatal("heard nothing")
	}
	panic("unreachable")
}

func TestHeard(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 2)
			a, b := hosts[0].open(t), hosts[1].open(t)
			b.Watch([]netip.Addr{f.vip})
			for _, announce := range []func() error{
				func() error { return b.Announce(f.vip) },     // own
				func() error { return a.Announce(f.another) }, // not watched
				func() error {
					return a.send(f.vip, "ask", func(own mac) ([]byte, error) { return question(f.vip, own) })
				},
				func() error { return a.Announce(f.vip) },
			} {
				if err := announce(); err != nil {
					t.Fatal(err)
				}
			}
			before := time.Now()
			s := hear(t, b)
			if s.Addr != f.vip || !s.Asks || s.MAC.String() != own(t, a) {
				t.Errorf("heard %v, want the question for %s of %s", s, f.vip, own(t, a))
			}
			s = hear(t, b)
			if s.Addr != f.vip || s.Asks || s.MAC.String() != own(t, a) || s.When.Before(before.Add(-time.Minute)) {
				t.Errorf("heard %v, want %s at %s", s, f.vip, own(t, a))
			}

			// Watching another set ends that; a host that merely uses an address is heard.
			b.Watch([]netip.Addr{f.another})
			hosts[0].add(t, f.another.String()+"/24")
			hosts[0].poke(t, netip.MustParseAddr(map[bool]string{true: "10.9.0.200", false: "2001:db8::200"}[f.vip.Is4()]))
			for s := hear(t, b); s.Addr != f.another; s = hear(t, b) {
				t.Errorf("heard %v, which is not watched", s)
			}
		})
	}
}

// One announcement in two forms is one sighting, a storm costs what it must.
func TestStormIsHeardOnce(t *testing.T) {
	hosts := lan(t, 2)
	a, b := hosts[0].open(t), hosts[1].open(t)
	v4 := families[0]
	b.Watch([]netip.Addr{v4.vip, v4.another})
	began := time.Now()
	for range 50 {
		if err := a.Announce(v4.vip); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Announce(v4.another); err != nil {
		t.Fatal(err)
	}
	n := 0
	for hear(t, b).Addr != v4.another {
		n++
	}
	if most := 1 + int(time.Since(began)/sightingGap); n > most {
		t.Errorf("%d sightings of a storm, want at most %d", n, most)
	}
}

func TestOnlyWhatConcernsUsReachesUs(t *testing.T) {
	hosts := lan(t, 2)
	a, b := hosts[0].open(t), hosts[1].open(t)
	for _, f := range families {
		m, err := a.mac(f.family)
		if err != nil {
			t.Fatal(err)
		}
		noise, err := announcement(f.another, m, Plain)
		if err != nil {
			t.Fatal(err)
		}
		stranger := append([]byte{2, 0, 0, 0, 0, 9}, noise[6:]...)
		noise[20]++ // another operation or next header
		if f.family == lb.IPv4 {
			noise[16]++ // of another protocol
		}
		for _, frame := range [][]byte{noise, stranger} {
			if err := a.write(f.family, frame); err != nil {
				t.Fatal(err)
			}
		}
		b.Watch([]netip.Addr{f.vip})
		if err := a.Announce(f.vip); err != nil {
			t.Fatal(err)
		}
		hear(t, b)
		seen := 0
		eventually(t, "all frames", func() bool {
			stats, err := b.sockets[f.family].Stats()
			if err != nil {
				t.Fatal(err)
			}
			seen += int(stats.Packets)
			return seen >= f.frames
		})
		if seen != f.frames {
			t.Errorf("%s: %d frames reached the port, want %d", f.name, seen, f.frames)
		}
	}
}

func TestLinkDownAndUp(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 2)
			hosts[1].ip(t, "link", "set", "eth0", "down")
			a, b := hosts[0].open(t), hosts[1].open(t) // b is opened while down
			a.Watch([]netip.Addr{f.vip})
			b.Watch([]netip.Addr{f.another})
			for range 2 {
				if err := b.Announce(f.vip); !errors.Is(err, unix.ENETDOWN) {
					t.Errorf("announce while down: %v", err)
				}
				if _, err := b.Probe(t.Context(), f.vip, nil); !errors.Is(err, unix.ENETDOWN) {
					t.Errorf("probe while down: %v", err)
				}
				hosts[1].ip(t, "link", "set", "eth0", "up")
				for _, way := range []struct {
					from, to *Port
					addr     netip.Addr
				}{{b, a, f.vip}, {a, b, f.another}} {
					// The bridge takes its time to notice.
					eventually(t, "frames after the link came up", func() bool {
						if err := way.from.Announce(way.addr); err != nil {
							t.Fatal(err)
						}
						select {
						case <-way.to.Heard():
							return true
						default:
							return false
						}
					})
				}
				hosts[1].ip(t, "link", "set", "eth0", "down")
			}
		})
	}
}

func TestMACAndNameChange(t *testing.T) {
	const changed = "02:00:00:00:00:77"
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 2)
			a, b := hosts[0].open(t), hosts[1].open(t)
			a.Watch([]netip.Addr{f.vip})
			hosts[1].ip(t, "link", "set", "eth0", "down")
			hosts[1].ip(t, "link", "set", "eth0", "name", "lan0", "address", changed)
			hosts[1].ip(t, "link", "set", "lan0", "up")
			if got := own(t, b); got != changed {
				t.Errorf("the MAC is %s, want %s", got, changed)
			}
			eventually(t, "an announcement with the new MAC", func() bool {
				if err := b.Announce(f.vip); err != nil {
					t.Fatal(err)
				}
				select {
				case s := <-a.Heard():
					return s.MAC.String() == changed
				default:
					return false
				}
			})
		})
	}
}

func TestInterfaceGone(t *testing.T) {
	hosts := lan(t, 1)
	p := hosts[0].open(t)
	hosts[0].ip(t, "link", "del", "eth0")
	for _, f := range families {
		if err := p.Announce(f.vip); !errors.Is(err, ErrGone) {
			t.Errorf("announce: %v, want %v", err, ErrGone)
		}
		if _, err := p.Probe(t.Context(), f.vip, nil); err == nil {
			t.Error("a probe where there is no interface")
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	hosts := lan(t, 1)
	hosts[0].do(t, func() error {
		for _, name := range []string{"lo", "eth9"} {
			if p, err := Open(name); err == nil {
				p.Close()
				t.Errorf("opened a port on %s", name)
			}
		}
		return nil
	})
}

func TestCloseEndsAll(t *testing.T) {
	hosts := lan(t, 1)
	p := hosts[0].open(t)
	probed := make(chan error)
	go func() {
		_, err := p.Probe(t.Context(), families[0].vip, nil)
		probed <- err
	}()
	eventually(t, "the probe to begin", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.probes) > 0
	})
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-probed; err == nil {
		t.Error("a probe on a closed port found the address free")
	}
	if _, open := <-p.Heard(); open {
		t.Error("Heard is not closed")
	}
	if err := p.Announce(families[0].vip); err == nil {
		t.Error("announced on a closed port")
	}
}
