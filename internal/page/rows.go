package page

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"fairlead.io/internal/snapshot"
)

// rows are what is shown: by collection and key, as JSON. Rows that have not changed are
// equal byte for byte, so two states can be compared.
type rows map[string]map[string]json.RawMessage

func (r rows) add(collection, key string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		return // never: these are plain values
	}
	if r[collection] == nil {
		r[collection] = map[string]json.RawMessage{}
	}
	r[collection][key] = data
}

// with returns the same rows and another value of one.
func (r rows) with(collection, key string, value any) rows {
	out := maps.Clone(r)
	out[collection] = maps.Clone(r[collection])
	out.add(collection, key, value)
	return out
}

// difference is what leads from one state to the next, by collection.
type difference map[string]*changes

type changes struct {
	// Set has rows that are new or other, and Gone the keys of those that are not there
	// any more.
	Set  map[string]json.RawMessage `json:"set,omitempty"`
	Gone []string                   `json:"gone,omitempty"`
}

// collections are all of them.
var collections = []string{"head", "nodes", "pools", "addresses", "services", "problems", "timeline"}

// since returns what has changed since was.
func (r rows) since(was rows) difference {
	out := difference{}
	for _, name := range collections {
		var c changes
		for key, row := range r[name] {
			if string(was[name][key]) != string(row) {
				if c.Set == nil {
					c.Set = map[string]json.RawMessage{}
				}
				c.Set[key] = row
			}
		}
		for key := range was[name] {
			if _, still := r[name][key]; !still {
				c.Gone = append(c.Gone, key)
			}
		}
		if len(c.Set)+len(c.Gone) > 0 {
			out[name] = &c
		}
	}
	return out
}

// head is what is above everything else.
type head struct {
	Cluster string `json:"cluster"`
	// At is when all this was so. Away says why nothing newer is known.
	At   *time.Time `json:"at,omitempty"`
	Away string     `json:"away,omitempty"`
	// Read says whether the cluster was read.
	Read       bool                     `json:"read"`
	Controller snapshot.ControllerState `json:"controller"`
	Agents     snapshot.AgentsState     `json:"agents"`
	Services   map[snapshot.State]int   `json:"services,omitempty"`
	Unknown    []string                 `json:"unknown,omitempty"`
}

func headOf(name string, status *snapshot.Status, c snapshot.Contact) head {
	h := head{Cluster: name, Away: c.Away}
	if !c.At.IsZero() {
		at := c.At.UTC().Truncate(time.Second)
		h.At = &at
	}
	if status == nil {
		h.Away = cmp.Or(c.Away, "Reading the cluster …")
		return h
	}
	h.Read, h.Controller, h.Agents, h.Services, h.Unknown = true, status.Controller, status.Agents, status.Services, status.Unknown
	h.Agents.Trouble = nil // nodes tell
	return h
}

// pool is one card.
type pool struct {
	snapshot.PoolState
	Summary string           `json:"summary"`
	Strips  []snapshot.Strip `json:"strips,omitempty"`
}

// rowsOf returns everything that is shown of a cluster, but the head.
func rowsOf(s *snapshot.Snapshot, status *snapshot.Status, t *timeline) rows {
	out := rows{}
	for _, n := range s.NodeStates() {
		out.add("nodes", n.Name, n)
	}
	strips := s.Strips()
	all := s.Addresses(snapshot.Listing{})
	for _, p := range all.Pools {
		out.add("pools", p.Name, pool{p, p.Summary(), strips[p.Name]})
	}
	for _, a := range all.Addresses {
		a.For = ""
		out.add("addresses", a.Address, a)
	}
	for _, of := range s.ServiceStates() {
		if of.State != snapshot.OK || len(of.Addresses) == 0 {
			out.add("services", of.Service, of)
		}
	}
	for _, problem := range status.Problems {
		// Services and nodes are shown elsewhere.
		if about, _, _ := strings.Cut(problem.About, " "); about != "service" && about != "agent" {
			out.add("problems", problem.About+" "+problem.Reason, problem)
		}
	}
	for _, h := range t.latest() {
		out.add("timeline", h.ID, h)
	}
	return out
}
