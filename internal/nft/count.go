package nft

import (
	"fmt"
	"net/netip"

	"fairlead.io/internal/lb"
)

// Flow is what packets are counted for.
type Flow struct {
	Addr netip.Addr
	Port lb.Port
}

// Count is how much has arrived from outside.
type Count struct{ Packets, Bytes uint64 }

// Counts returns how much has arrived for the ports of all addresses that are counted.
// It counts as long as the address is this node's, through changes of other ports and
// restarts of the agent.
func (t *Table) Counts() (map[Flow]Count, error) {
	t.state.Lock()
	defer t.state.Unlock()
	return t.counts()
}

func (t *Table) counts() (map[Flow]Count, error) {
	out := map[Flow]Count{}
	for _, s := range seen {
		elems, err := t.state.GetSetElements(s.nft())
		if err != nil {
			return nil, fmt.Errorf("read set %s: %w", s.name, err)
		}
		for _, e := range elems {
			addr, rest := element{set: s, key: string(e.Key)}.addr()
			port, ok := portOf(rest)
			if !ok || e.Counter == nil {
				continue
			}
			f := Flow{addr, port}
			before := t.earlier[f]
			out[f] = Count{before.Packets + e.Counter.Packets, before.Bytes + e.Counter.Bytes}
		}
	}
	return out, nil
}
