package elect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
)

// Elect returns whose a is. Nodes have different names, and so have claims.
func Elect(a Address, nodes []Node, claims []Claim) Outcome {
	switch {
	case a.Unshareable:
		return Outcome{Why: Unshareable}
	case len(a.Advertisements) == 0:
		return Outcome{Why: NotAdvertised}
	case !a.AnyServing && !a.Placed:
		return Outcome{Why: NoEndpoint}
	}
	best := first(&a, nodes)
	if len(best) == 0 {
		return Outcome{Why: NoNode, Refusals: refusals(&a, nodes)}
	}
	var o Outcome
	if a.sticky() {
		o.Owner, o.Why = holder(&a, best, claims), Kept
	}
	if o.Owner == "" {
		o.Owner, o.Why = byHash(&a, best), ByHash
	}
	o.Epoch = epoch(o.Owner, claims)
	return o
}

// first returns the eligible nodes that nobody is preferred to, by what is
// known of the nodes alone.
func first(a *Address, nodes []Node) []*Node {
	type standing struct{ last, score int }
	var best []*Node
	var top standing
	for i := range nodes {
		n := &nodes[i]
		if obstacle(a, n) != None {
			continue
		}
		s := standing{last(n), score(a, n)}
		order := 1
		if len(best) > 0 {
			order = cmp.Or(cmp.Compare(top.last, s.last), cmp.Compare(s.score, top.score))
		}
		switch {
		case order > 0:
			best, top = append(best[:0], n), s
		case order == 0:
			best = append(best, n)
		}
	}
	return best
}

// last is higher for nodes that come later: leaving ones last, because they hand over
// to whoever can have the address; then those without a healthy proxy; then cordoned
// ones.
func last(n *Node) (rank int) {
	for _, later := range []bool{n.Leaving, !n.ProxyHealthy, n.Cordoned} {
		rank *= 2
		if later {
			rank++
		}
	}
	return rank
}

// score adds up what the advertisements that select n prefer it by.
func score(a *Address, n *Node) (sum int) {
	for i := range a.Advertisements {
		ad := &a.Advertisements[i]
		if len(ad.Preferred) == 0 || !selects(ad, n.Labels) {
			continue
		}
		for _, p := range ad.Preferred {
			if p.Selector.Matches(n.Labels) {
				sum += int(p.Weight)
			}
		}
	}
	return sum
}

// holder returns the one of nodes that has the address, or "".
func holder(a *Address, nodes []*Node, claims []Claim) string {
	var found Claim
	for _, c := range claims {
		if c.Up && among(nodes, c.Node) && (!found.Up || wins(a, c, found)) {
			found = c
		}
	}
	return found.Node
}

func among(nodes []*Node, name string) bool {
	for _, n := range nodes {
		if n.Name == name {
			return true
		}
	}
	return false
}

// byHash returns the first of nodes.
func byHash(a *Address, nodes []*Node) string {
	best, lowest := nodes[0], hash(a, nodes[0].Name)
	for _, n := range nodes[1:] {
		if h := hash(a, n.Name); bytes.Compare(h[:], lowest[:]) < 0 {
			best, lowest = n, h
		}
	}
	return best.Name
}

// hash is MetalLB's: the node with the lowest announces the address.
func hash(a *Address, node string) [sha256.Size]byte {
	var buffer [128]byte
	b := append(buffer[:0], node...)
	b = append(b, '#')
	if a.HashKey != "" {
		return sha256.Sum256(append(b, a.HashKey...))
	}
	return sha256.Sum256(a.Addr.AppendTo(b))
}

// Wins says whether x settles it where x and y both hold a: the higher epoch,
// then the first by hash.
func Wins(a Address, x, y Claim) bool { return wins(&a, x, y) }

func wins(a *Address, x, y Claim) bool {
	if x.Epoch != y.Epoch {
		return x.Epoch > y.Epoch
	}
	hx, hy := hash(a, x.Node), hash(a, y.Node)
	return bytes.Compare(hx[:], hy[:]) < 0
}
