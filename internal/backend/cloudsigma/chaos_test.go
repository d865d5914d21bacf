package cloudsigma

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudsigma"
	dialect "fairlead.io/internal/compat/cloudsigma"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// chaos is two clusters in one account to which anything happens at any time.
type chaos struct {
	t        *testing.T
	rand     *rand.Rand
	clusters [2]*world
	journal  []string
	theirs   []string // what nobody of us may touch
}

// Whatever happens in whatever order: nobody publishes an address that another has,
// what is not ours is not touched, and in the end all is as it should be.
func TestChaos(t *testing.T) {
	kinds := []string{}
	for name := range faults {
		kinds = append(kinds, name)
	}
	slices.Sort(kinds)
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &chaos{t: t, rand: rand.New(rand.NewPCG(seed, 7))}
				c.begin()
				for range 60 {
					c.happen(kinds)
					c.check()
				}
				c.end()
			})
		})
	}
}

func (c *chaos) begin() {
	a := newWorld(c.t, simulated.Knobs{}, 0, 9)
	b := clusterIn(c.t, a.sim, "staging")
	for i, w := range []*world{a, b} {
		for n := range 3 {
			mode := "dhcp"
			if c.rand.IntN(4) == 0 {
				mode = "manual"
			}
			w.addNode(fmt.Sprintf("%s-%d", w.cluster, n+1), mode)
		}
		c.clusters[i] = w
	}
	a.addServer("db", "static", "192.0.2.100")
	a.addNode("bastion", "dhcp")
	a.nodes = a.nodes[:3]
	a.attach("bastion", "192.0.2.16")
	a.sim.AddTag("team:red", "192.0.2.10", "192.0.2.16")
	a.sim.AddTag("cluster:third", "192.0.2.15")
	c.theirs = a.state()
	a.readPools()
	b.readPools()
}

func (c *chaos) say(format string, args ...any) {
	c.journal = append(c.journal, fmt.Sprintf(format, args...))
}

// happen is one thing that happens.
func (c *chaos) happen(kinds []string) {
	w := c.clusters[c.rand.IntN(2)]
	sim := w.sim
	node := &w.nodes[c.rand.IntN(len(w.nodes))]
	var s *corev1.Service
	if len(w.services) > 0 {
		s = w.services[c.rand.IntN(len(w.services))]
	}
	switch n := c.rand.IntN(20); {
	case n < 3 && len(w.services) < 2:
		name := []string{"a-b/c", "a/b-c", "shop/web"}[c.rand.IntN(3)]
		if !slices.ContainsFunc(w.services, func(o *corev1.Service) bool { return key(o).String() == name }) {
			c.say("%s: create %s", w.cluster, name)
			w.create(name).UID = types.UID(fmt.Sprint(w.cluster, name, c.rand.Uint64()))
		}
	case n == 3 && s != nil && s.DeletionTimestamp == nil:
		c.say("%s: delete %s", w.cluster, key(s))
		w.delete(s)
	case n == 4:
		node.Ready = !node.Ready
		c.say("%s: %s Ready %v", w.cluster, node.Name, node.Ready)
	case n == 5:
		status := []string{"stopped", "running", "paused"}[c.rand.IntN(3)]
		c.say("%s: server %s %s", w.cluster, node.Name, status)
		_ = sim.SetStatus(w.servers[node.Name], status)
	case n == 6:
		c.say("%s: restart", w.cluster)
		w.restart()
	case n == 7:
		f := faults[kinds[c.rand.IntN(len(kinds))]]
		f.Skip, f.Times = c.rand.IntN(6), max(f.Times, 1+c.rand.IntN(3))
		c.say("fault %+v", f)
		sim.Fail(f)
	case n == 8:
		for _, tag := range sim.Tags() {
			if dialect.IsServiceTag(tag.Name) && c.rand.IntN(2) == 0 {
				c.say("by hand: delete tag %s", tag.Name)
				_ = sim.Delete(simulated.Tags, tag.UUID)
			}
		}
	case n == 9 && s != nil && s.DeletionTimestamp == nil && published(s) != "":
		c.say("by hand: one more tag %s on %s", dialect.ServiceTag(key(s)), published(s))
		sim.AddTag(dialect.ServiceTag(key(s)), published(s))
	case n == 10 && node.Name != "":
		c.say("by hand: detach all from %s", node.Name)
		w.detachByHand(node.Name)
	case n < 15 && s != nil:
		before := s.DeepCopy()
		out, err := w.look(s)
		if c.rand.IntN(4) == 0 && err == nil && !out.Gone {
			c.say("%s: looked at %s, and was killed before it wrote", w.cluster, key(s))
			finalizers := s.Finalizers // written before anything is done
			*s = *before
			s.Finalizers = finalizers
			w.restart()
			return
		}
		c.say("%s: looked at %s: %s %v", w.cluster, key(before), out.Reason.Code, err)
	case n == 15:
		w.readPools()
	default:
		d := time.Duration(1+c.rand.IntN(40)) * time.Second
		c.say("%s pass", d)
		<-time.After(d)
	}
}

// detachByHand tries until it is done.
func (w *world) detachByHand(node string) {
	hand := clusterIn(w.t, w.sim, "hand").backend.client.Servers
	for range 20 {
		_, err := hand.Change(w.t.Context(), w.servers[node], func(s *cloudsigma.Server) error {
			s.NICs = s.NICs[:1]
			return nil
		})
		if err == nil {
			return
		}
		<-time.After(time.Second)
	}
}

// check is what is true at any time.
func (c *chaos) check() {
	c.t.Helper()
	has := map[string]string{}
	for _, w := range c.clusters {
		for _, s := range w.services {
			addr, who := published(s), w.cluster+" "+key(s).String()
			if s.DeletionTimestamp != nil {
				continue // it may be free already
			}
			if other := has[addr]; addr != "" && other != "" {
				c.fail("%s and %s both publish %s", other, who, addr)
			}
			has[addr] = who
			if addr == "192.0.2.15" || addr == "192.0.2.16" || addr == "192.0.2.100" {
				c.fail("%s publishes %s, which is somebody else's", who, addr)
			}
		}
	}
	now := c.clusters[0].state()
	for _, line := range c.theirs {
		if !slices.Contains(now, line) {
			c.fail("%q is gone", line)
		}
	}
}

func (c *chaos) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("%s\nthe cloud has\n\t%s\nafter\n\t%s", fmt.Sprintf(format, args...), strings.Join(c.clusters[0].state(), "\n\t"), strings.Join(c.journal, "\n\t"))
}

// calm is when nothing happens any more, for long enough.
func (c *chaos) calm() {
	for range 4 {
		for _, w := range c.clusters {
			w.backend.forget()
			w.readPools()
			w.settle()
			c.check()
		}
		<-time.After(6 * time.Minute)
	}
}

func (c *chaos) end() {
	c.t.Helper()
	for _, w := range c.clusters {
		for i := range w.nodes {
			w.nodes[i].Ready = true
			_ = w.sim.SetStatus(w.servers[w.nodes[i].Name], "running")
		}
	}
	c.say("calm")
	for _, w := range c.clusters {
		w.create("last")
	}
	c.calm()
	want := slices.Clone(c.theirs)
	for _, w := range c.clusters {
		for _, s := range w.services {
			if published(s) == "" {
				c.fail("%s %s has nothing: %v", w.cluster, key(s), s.Status.Conditions)
			}
			_, node, _ := strings.Cut(placed(s), ": ")
			if !slices.Contains(c.clusters[0].state(), "NIC "+node+" "+published(s)) && w.anyManual() {
				node = "" // a card of its own is not needed
			}
			want = append(want, w.claimed(published(s), dialect.ServiceTag(key(s)), node)...)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if got := c.clusters[0].state(); !slices.Equal(got, want) {
		c.fail("the cloud should have\n\t%s", strings.Join(want, "\n\t"))
	}
	for _, w := range c.clusters {
		for _, s := range w.services {
			w.delete(s)
		}
	}
	c.say("all are deleted")
	c.calm()
	for _, w := range c.clusters { // whoever comes next finds what was left
		w.delete(w.create("next"))
	}
	c.calm()
	if got := c.clusters[0].state(); !slices.Equal(got, c.theirs) {
		c.fail("something is left, besides\n\t%s", strings.Join(c.theirs, "\n\t"))
	}
}

// anyManual says whether a node may have any subscribed address.
func (w *world) anyManual() bool {
	return slices.ContainsFunc(w.sim.Servers(), func(s simulated.Server) bool { return w.servers[s.Name] == s.UUID && s.NICs[0].V4.Mode == "manual" })
}
