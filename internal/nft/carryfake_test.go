package nft_test

import (
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/nft"
)

// The fake does what the kernel does.
func TestCarriersAreTheSame(t *testing.T) {
	fake := new(nft.FakeCarrier)
	for name, c := range map[string]nft.Carrier{"kernel": newCarryNode(t).CarryTable, "fake": fake} {
		t.Run(name, func(t *testing.T) {
			all := some(10, "eth0")
			nodes := []net.HardwareAddr{{2, 0, 0, 0, 0, 1}}
			carried := func(want int) {
				t.Helper()
				if got, err := c.Carried(); err != nil || len(got) != want {
					t.Errorf("%d are carried (%v), want %d", len(got), err, want)
				}
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			prepare := func(written bool, ifaces ...nft.CarryInterface) {
				t.Helper()
				if got, err := c.Prepare(ifaces, nodes); err != nil || got != written {
					t.Errorf("written: %t (%v), want %t", got, err, written)
				}
			}
			eth0, eth1 := nft.CarryInterface{Name: "eth0"}, nft.CarryInterface{Name: "eth1"}
			carried(0)
			if err := c.Update(all, nil); !errors.Is(err, nft.ErrTampered) {
				t.Errorf("before Prepare: %v", err)
			}
			if err := c.Settle(vip[0], time.Second); !errors.Is(err, nft.ErrTampered) {
				t.Errorf("before Prepare: %v", err)
			}
			leftover := func(want bool) {
				t.Helper()
				got, there, err := c.Leftover()
				if err != nil || there != want || want && (len(got) != 1 || !slices.Equal(got[0], nodes[0])) || !want && len(got) > 0 {
					t.Errorf("nodes are %v, there %t (%v), want %t", got, there, err, want)
				}
			}
			leftover(false)
			prepare(true, eth0)
			prepare(false, eth0)
			leftover(true)
			must(c.Update(all, nil))
			must(c.Update(all, nil))
			must(c.Update(all[:5], all))
			carried(5)
			if err := c.Update(some(20, "eth1"), nil); err == nil || errors.Is(err, nft.ErrTampered) {
				t.Errorf("an interface that is not prepared: %v", err)
			}
			must(c.Update(nil, some(20, "eth1")))
			carried(5)
			must(c.Settle(vip[1], time.Second))
			must(c.Settled(vip[1]))
			must(c.Settled(vip[1]))
			if n, err := c.Packets(); n != 0 || err != nil {
				t.Errorf("%d packets, %v", n, err)
			}
			prepare(true, eth0, eth1)
			must(c.Update(some(20, "eth1"), nil))
			carried(25)
			prepare(true, eth1)
			carried(20)
			must(c.Remove())
			carried(0)
			leftover(false)
			must(c.Close())
		})
	}
	if !fake.Removed() {
		t.Error("not removed")
	}
}

func TestFakeCarrierEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(nft.FakeCarrier)
		node := net.HardwareAddr{2, 0, 0, 0, 0, 1}
		if _, err := c.Prepare([]nft.CarryInterface{{Name: "eth0"}}, []net.HardwareAddr{node}); err != nil {
			t.Fatal(err)
		}
		one := some(1, "eth0")
		if err := errors.Join(c.Update(one, nil), c.Settle(vip[0], time.Hour)); err != nil {
			t.Fatal(err)
		}
		if via, ok := c.Receive("eth0", net.HardwareAddr{2, 0, 0, 0, 0, 9}, one[0].Conn); !ok || via != one[0].Via {
			t.Errorf("sent on to %v, %t", via, ok)
		}
		if _, ok := c.Receive("eth0", node, one[0].Conn); ok {
			t.Error("sent on from a node")
		}
		if n, _ := c.Packets(); n != 1 {
			t.Errorf("%d packets", n)
		}
		if !c.Settling(vip[0]) {
			t.Error("not settling")
		}
		<-time.After(nft.SettleTime)
		if c.Settling(vip[0]) {
			t.Error("still settling")
		}
		next := c.Reopen()
		<-time.After(nft.CarryTime - nft.SettleTime - time.Millisecond)
		if got, _ := next.Carried(); len(got) != 1 {
			t.Errorf("carried are %v", got)
		}
		<-time.After(time.Millisecond)
		if got, _ := next.Carried(); len(got) != 0 {
			t.Errorf("carried are %v", got)
		}
		if _, ok := next.Receive("eth0", net.HardwareAddr{2, 0, 0, 0, 0, 9}, one[0].Conn); ok {
			t.Error("sent on after its time")
		}
	})
}
