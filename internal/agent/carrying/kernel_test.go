package carrying

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/moves"
)

// A kernel that refuses is asked again, and tables that are gone are written again.
func TestKernelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.carrier.Tamper()
		after(renewPeriod + 5*time.Second)
		b.expect(t, "after the tables were removed", vip, 0, 3, "[a:3]")
		// What has changed has the tables written again: with all elements.
		b.carrier.Tamper()
		l.members()
		synctest.Wait()
		b.expect(t, "after the tables were removed and nodes have changed", vip, 0, 3, "[a:3]")
		// And it is said.
		b.carrier.Tamper()
		b.Tampered()
		synctest.Wait()
		b.expect(t, "after it was said that the tables were removed", vip, 0, 3, "[a:3]")
		// The kernel refuses for a while, and is asked again.
		b.carrier.SetFail(func(string) error { return errors.New("not now") })
		a.change(false, vip, 3, 1)
		after(time.Second)
		b.expect(t, "while the kernel refuses", vip, 0, 4, "[a:3]")
		b.carrier.SetFail(nil)
		after(2 * retryPeriod)
		b.expect(t, "after it has refused", vip, 0, 4, "[a:4]")
	})
}

// Tables that are removed while an address moves: clients go on waiting for lists.
func TestTamperedWhileSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		l.nodes["a"].Take(vip, claim(1, "", true))
		after(time.Second)
		b := l.nodes["b"]
		b.Take(vip, claim(2, "a", false))
		after(50 * time.Millisecond)
		b.carrier.Tamper()
		b.Tampered()
		synctest.Wait()
		if !b.carrier.Settling(vip) {
			t.Error("b does not wait for lists any more")
		}
	})
}

// Of too many connections, as many go on as there is room for. It is not tried again all the time.
func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		b.carrier.SetMost(5)
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 8)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.expect(t, "too many", vip, 0, 8, "[a:5]")
		if got := b.kept(vip); got.Connections != 5 {
			t.Errorf("kept: %+v", got)
		}
		updates := b.updates()
		after(2 * time.Minute)
		if n, most := updates(), int(2*time.Minute/renewPeriod)+2; n > most {
			t.Errorf("%d changes in two minutes, want at most %d", n, most)
		}
		b.expect(t, "two minutes later", vip, 0, 8, "[a:5]")
		a.change(true, vip, 0, 4)
		after(time.Second)
		b.expect(t, "some have ended", vip, 0, 8, "[a:4]")
	})
}

// An agent that starts does not know all nodes at once. What comes from one of them is not handed
// on a second time, though.
func TestNextAgentKnowsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b", "c")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.end()
		b = l.start(t, "b")
		b.Take(vip, claim(2, "", true))
		// Others are met one after the other.
		b.Members(map[string][]net.HardwareAddr{"b": {mac("b")}}, map[string]bool{})
		after(time.Second)
		b.expect(t, "the next agent", vip, 0, 3, "[a:3]")
		for _, name := range []string{"a", "c"} {
			if _, again := b.carrier.Receive("eth0", mac(name), conn(vip, 0)); again {
				t.Errorf("a packet of node %s is handed on", name)
			}
		}
		// When nothing is left of the earlier agent, it counts what is known now.
		a.change(true, vip, 0, 3)
		l.members()
		after(time.Minute)
		b.Members(map[string][]net.HardwareAddr{"a": {mac("a")}, "b": {mac("b")}}, map[string]bool{"a": true})
		a.Take(vip6, claim(1, "", true))
		a.change(false, vip6, 0, 1)
		after(time.Second)
		l.move(t, vip6, 2, "a", "b")
		if _, nodes := b.carrier.Prepared(); len(nodes) != 2 {
			t.Errorf("nodes are %v", nodes)
		}
	})
}

// Tables that an earlier agent has left are removed when nothing comes into them.
func TestEmptyTablesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		after(time.Second)
		l.move(t, vip, 2, "a", "b") // without connections
		b.end()
		b = l.start(t, "b")
		b.Take(vip, claim(2, "", true))
		l.members()
		after(removeAfter / 2)
		if b.carrier.Removed() {
			t.Error("they are removed at once")
		}
		after(removeAfter)
		if !b.carrier.Removed() {
			t.Error("empty tables are left")
		}
	})
}

// A kernel that loses changes, or does not list connections, is not asked all the time.
func TestReadingIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		reads := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			n := a.reads
			a.reads = 0
			return n
		}
		reads()
		for range 50 { // more than can be heard
			a.mu.Lock()
			watcher := a.watcher
			a.mu.Unlock()
			go watcher([]conntrack.Change{{Conn: conn(vip, 0)}, {Lost: true}})
			after(100 * time.Millisecond)
		}
		if n := reads(); n < 3 || n > 6 {
			t.Errorf("%d readings in five seconds", n)
		}
		a.mu.Lock()
		a.unread = errors.New("not now")
		a.mu.Unlock()
		after(moves.Reread + 5*time.Second)
		if n := reads(); n < 3 || n > 21 {
			t.Errorf("%d readings of a kernel that does not list", n)
		}
		b.expect(t, "what was known is kept", vip, 0, 3, "[a:3]")
	})
}

// updates counts how often the kernel is written to from now on.
func (n *fakeNode) updates() func() int {
	var mu sync.Mutex
	count := 0
	n.carrier.SetFail(func(verb string) error {
		mu.Lock()
		defer mu.Unlock()
		if verb == "update" || verb == "prepare" {
			count++
		}
		return nil
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// Many connections of an address are not looked at whenever one of them changes.
func TestManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		const many = manyFlows + 200
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, many)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.expect(t, "moved", vip, 0, many, fmt.Sprintf("[a:%d]", many))
		after(time.Second)
		updates := b.updates()
		for i := range 100 {
			a.change(true, vip, i, 1)
			after(10 * time.Millisecond)
		}
		if n := updates(); n > 6 {
			t.Errorf("%d changes in a second", n)
		}
		after(computePause + tick)
		b.expect(t, "some have ended", vip, 0, many, fmt.Sprintf("[a:%d]", many-100))
		if carried, total := b.Carried(); total != many-100 || len(carried) != 1 || carried[0].Connections != total {
			t.Errorf("carried: %+v", carried)
		}
	})
}
