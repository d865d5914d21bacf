package elect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Why says what an outcome came from.
type Why uint8

const (
	Kept          Why = iota // the owner has it already
	ByHash                   // the owner is the first by hash of the best nodes
	NoEndpoint               // no owner: no pod serves
	NoNode                   // no owner: see Refusals
	NotAdvertised            // no owner: no advertisement applies
	Unshareable              // no owner: see Address.Unshareable
)

// Outcome is the node that owns an address, and why.
type Outcome struct {
	Owner string // a node; "" if there is none
	Why   Why

	// Epoch is the one Owner claims the address with: that of its claim, unless
	// another that is up has a higher one. 0 without an owner.
	Epoch uint64

	// Refusals says for every node why it cannot own the address, if no node can.
	Refusals []Refusal
}

// String explains the outcome to a user, in a sentence.
func (o Outcome) String() string {
	switch o.Why {
	case Kept:
		return fmt.Sprintf("Node %s keeps it.", o.Owner)
	case ByHash:
		return fmt.Sprintf("Node %s is the first by hash.", o.Owner)
	case NoEndpoint:
		return "No node announces it, because no endpoint is serving."
	case NotAdvertised:
		return "No node announces it, because there is no advertisement for it."
	case Unshareable:
		return "No node announces it, because its Service may share it with others, and an advertisement with serviceSelectors applies, which cannot be for one and not for another."
	case NoNode:
	}
	if len(o.Refusals) == 0 {
		return "No node can announce it, because there is none."
	}
	if chosen := o.chosen(); len(chosen) > 0 {
		return "The controller has chosen a node that cannot announce it: " + tell(chosen) + "."
	}
	return "No node can announce it: " + tell(o.Refusals) + "."
}

// Advice is the explanation of an outcome without an owner, and what to do.
func (o Outcome) Advice() string {
	if o.Why == NoNode && len(o.chosen()) > 0 {
		return o.String() + " The controller moves the address if another node can carry it."
	}
	return o.String() + " Fix that, or change how the pool is advertised."
}

// chosen are the refusals of the nodes that the controller has placed the address on,
// if it has.
func (o Outcome) chosen() []Refusal {
	chosen := slices.DeleteFunc(slices.Clone(o.Refusals), func(r Refusal) bool { return r.Why == NotPlaced })
	if len(chosen) == len(o.Refusals) {
		return nil
	}
	return chosen
}

// tell lists the nodes of each obstacle, at most three of them by name.
func tell(refusals []Refusal) string {
	const most = 3
	var parts []string
	byWhy := slices.Clone(refusals)
	slices.SortStableFunc(byWhy, func(x, y Refusal) int {
		return cmp.Or(cmp.Compare(x.Why, y.Why), strings.Compare(x.Silence, y.Silence))
	})
	for len(byWhy) > 0 {
		why := byWhy[0].text()
		var names []string
		for len(byWhy) > 0 && byWhy[0].text() == why {
			names = append(names, byWhy[0].Node)
			byWhy = byWhy[1:]
		}
		switch n := len(names); {
		case n == 1:
			parts = append(parts, names[0]+" "+why)
		case n > most:
			parts = append(parts, fmt.Sprintf("%s and %d more: each %s", strings.Join(names[:most], ", "), n-most, why))
		default:
			parts = append(parts, fmt.Sprintf("%s: each %s", strings.Join(names, ", "), why))
		}
	}
	return strings.Join(parts, "; ")
}

// Task is what a node has to do about an address.
type Task uint8

const (
	Nothing Task = iota
	Take         // claim it with Outcome.Epoch
	Keep
	HandOver // keep it until the owner's claim is up
	Drop
)

// Task returns what the node self has to do, make before break.
func (o Outcome) Task(self string, claims []Claim) Task {
	mine, owners := find(claims, self), find(claims, o.Owner)
	switch {
	case o.Owner == self && mine.Up && mine.Epoch == o.Epoch:
		return Keep
	case o.Owner == self:
		return Take
	case !mine.Up:
		return Nothing
	case o.Owner == "" || owners.Up && owners.Epoch >= mine.Epoch:
		return Drop
	}
	return HandOver
}

// find returns node's claim, or none.
func find(claims []Claim, node string) Claim {
	for _, c := range claims {
		if c.Node == node && node != "" {
			return c
		}
	}
	return Claim{}
}

// epoch returns the one owner is to claim with: a claim that is up and that no
// other such exceeds needs no new one, so that keeping an address writes
// nothing. Claims of dead nodes count: they may come back with them.
func epoch(owner string, claims []Claim) uint64 {
	mine := find(claims, owner)
	var top, up uint64
	for _, c := range claims {
		top = max(top, c.Epoch)
		if c.Up {
			up = max(up, c.Epoch)
		}
	}
	if mine.Up && mine.Epoch == up {
		return mine.Epoch
	}
	return top + 1
}
