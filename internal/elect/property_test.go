package elect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// world is a random set of facts.
type world struct {
	a      Address
	nodes  []Node
	claims []Claim
}

func draw(r *rand.Rand) world {
	rarely := func(n int) bool { return r.IntN(n) == 0 }
	zone := func() labels.Selector {
		return labels.SelectorFromSet(labels.Set{"zone": fmt.Sprint(r.IntN(3))})
	}
	w := world{a: address()}
	w.a.Advertisements = make([]lb.Advertisement, 1)
	for rarely(3) {
		w.a.Advertisements = append(w.a.Advertisements, lb.Advertisement{})
	}
	for i := range w.a.Advertisements {
		ad := &w.a.Advertisements[i]
		ad.Failback = rarely(4)
		if rarely(3) {
			ad.Interfaces = []string{"eth1"}
		}
		if rarely(4) {
			ad.NodeSelectors = []labels.Selector{zone()}
		}
		for rarely(3) {
			ad.Preferred = append(ad.Preferred, lb.PreferredNodes{Weight: r.Int32N(3), Selector: zone()})
		}
	}
	if rarely(2) {
		w.a.Addr = netip.MustParseAddr("2001:db8::1")
	}
	if rarely(2) {
		w.a.HashKey = netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(8))}).String()
	}
	w.a.NeedsLocal, w.a.ServingNodes = rarely(4), sets.New[string]()
	for i := range r.IntN(7) {
		n := node(fmt.Sprintf("node-%d", i), func(n *Node) {
			n.Labels = labels.Set{"zone": fmt.Sprint(r.IntN(3))}
			n.Alive, n.ProxyHealthy, n.ProxyWasHealthy = !rarely(4), !rarely(6), rarely(2)
			n.Excluded, n.NetworkUnavailable = rarely(8), rarely(8)
			n.Cordoned, n.Leaving = rarely(5), rarely(5)
		})
		w.nodes = append(w.nodes, n)
		if !rarely(3) {
			w.a.ServingNodes.Insert(n.Name)
		}
		if rarely(3) {
			w.claims = append(w.claims, Claim{n.Name, uint64(r.IntN(4)), !rarely(3)})
		}
	}
	return w
}

func (w world) elect() Outcome { return Elect(w.a, w.nodes, w.claims) }

// settle lets the owner take it and all others give it up.
func (w world) settle() world {
	o := w.elect()
	w.claims = slices.Clone(w.claims)
	for i := range w.claims {
		w.claims[i].Up = false
	}
	w.claims = slices.DeleteFunc(w.claims, func(c Claim) bool { return c.Node == o.Owner })
	if o.Owner != "" {
		w.claims = append(w.claims, Claim{o.Owner, o.Epoch, true})
	}
	return w
}

func TestProperties(t *testing.T) {
	seed := rand.Uint64()
	for i := range 20000 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := draw(r)
		if broken := check(r, w); broken != "" {
			t.Fatalf("seed %d, %d: %s\n%+v\n%+v", seed, i, broken, w, w.elect())
		}
	}
}

// check returns what does not hold in w.
func check(r *rand.Rand, w world) string {
	o := w.elect()
	eligible := len(w.nodes) - len(refusals(&w.a, w.nodes))
	if (o.Owner != "") != (eligible > 0) {
		return "exactly one owner if any node is eligible"
	}

	shuffled := world{w.a, slices.Clone(w.nodes), slices.Clone(w.claims)}
	r.Shuffle(len(w.nodes), func(i, j int) { shuffled.nodes[i], shuffled.nodes[j] = shuffled.nodes[j], shuffled.nodes[i] })
	r.Shuffle(len(w.claims), func(i, j int) { shuffled.claims[i], shuffled.claims[j] = shuffled.claims[j], shuffled.claims[i] })
	shuffled.a.Advertisements = slices.Clone(w.a.Advertisements)
	r.Shuffle(len(w.a.Advertisements), func(i, j int) {
		ads := shuffled.a.Advertisements
		ads[i], ads[j] = ads[j], ads[i]
	})
	if s := shuffled.elect(); s.Owner != o.Owner || s.Why != o.Why || s.Epoch != o.Epoch || !slices.Equal(s.Refusals, o.Refusals) {
		return "every node computes the same"
	}

	for _, c := range w.claims {
		if o.Owner != "" && c.Up && c.Node != o.Owner && c.Epoch > o.Epoch {
			return "the owner's claim beats all others"
		}
	}

	settled := w.settle()
	if s := settled.elect(); s.Owner != o.Owner || s.Epoch != o.Epoch && s.Owner != "" {
		return "what is settled stays"
	}
	if o.Owner == "" {
		return ""
	}

	if len(w.nodes) > 1 {
		fewer := settled
		drop := r.IntN(len(w.nodes))
		if w.nodes[drop].Name != o.Owner {
			fewer.nodes = slices.Delete(slices.Clone(w.nodes), drop, drop+1)
			if fewer.elect().Owner != o.Owner {
				return "removing a node that is not the owner moves nothing"
			}
		}
	}

	more := settled
	newcomer := node("newcomer", func(n *Node) { n.Labels = labels.Set{"zone": fmt.Sprint(r.IntN(3))} })
	more.nodes = append(slices.Clone(w.nodes), newcomer)
	owner := w.nodes[slices.IndexFunc(w.nodes, func(n Node) bool { return n.Name == o.Owner })]
	if w.a.sticky() && last(&owner) == 0 && score(&w.a, &newcomer) <= score(&w.a, &owner) && more.elect().Owner != o.Owner {
		return "a sticky address does not move to a new node that is not preferred"
	}
	return ""
}

func BenchmarkElect(b *testing.B) {
	var nodes []Node
	for i := range 100 {
		nodes = append(nodes, node(fmt.Sprintf("node-%d", i)))
	}
	a := address()
	for _, claims := range [][]Claim{nil, {{"node-42", 1, true}}} {
		b.Run(fmt.Sprintf("claims=%d", len(claims)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Elect(a, nodes, claims)
			}
		})
	}
}
