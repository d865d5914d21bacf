package client

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.io/sandbox"
)

// Asker asks for an address by ARP or neighbour solicitations, again and again, and
// notes who answers: what a host sees that does not know the address yet.
type Asker struct {
	stop func()

	mu      sync.Mutex
	asked   []time.Time
	answers []answer
}

type answer struct {
	node string
	at   time.Time
}

// Ask begins to ask for an address.
func Ask(c *sandbox.Cluster, addr netip.Addr) (*Asker, error) {
	a := &Asker{}
	var err error
	a.stop, err = Question(c, Every, a, addr)
	return a, err
}

// Close ends the questions.
func (a *Asker) Close() { a.stop() }

// Asked notes a question.
func (a *Asker) Asked(_ netip.Addr, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, at)
}

// Answered notes an answer.
func (a *Asker) Answered(_ netip.Addr, node string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = append(a.answers, answer{node, at})
}

// since returns the answers from a moment on.
func (a *Asker) since(t time.Time) []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.answers, t, func(x answer, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(a.answers[first:])
}

// Nodes that have answered since a moment.
func (a *Asker) Nodes(since time.Time) (nodes []string) {
	for _, x := range a.since(since) {
		if !slices.Contains(nodes, x.node) {
			nodes = append(nodes, x.node)
		}
	}
	return nodes
}

// Gap is the longest time without an answer since a moment.
func (a *Asker) Gap(since time.Time) time.Duration {
	var at []time.Time
	for _, x := range a.since(since) {
		at = append(at, x.at)
	}
	return longestGap(since, at, time.Now())
}

// Unanswered is how many questions in a row nobody answered since a moment. It does not
// depend on how often this program gets to ask.
func (a *Asker) Unanswered(since time.Time) (most int) {
	heard := a.since(since)
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.asked, since, time.Time.Compare)
	row := 0
	for _, at := range a.asked[first:] {
		for len(heard) > 0 && heard[0].at.Before(at) {
			heard, row = heard[1:], 0
		}
		row++
		most = max(most, row)
	}
	return most
}

// nodeOf says whose a hardware address is: its last byte is that of the host's
// addresses.
func nodeOf(mac net.HardwareAddr) string {
	if mac[1] != 0xfa {
		return mac.String()
	}
	return fmt.Sprintf("node%d", int(mac[5])-10)
}
