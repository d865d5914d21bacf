package page

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/snapshot"
)

const (
	// maxHappenings is how many are kept.
	maxHappenings = 500
	// sameTime is how far an event and the report of an agent about the same move can be
	// apart.
	sameTime = 20 * time.Second
)

// happening is something that has happened to an address or an agent.
type happening struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Kind is moved, announced, silent, conflict, lost or back; joined or left if nodes
	// announce the address to routers, or no longer do.
	Kind     string   `json:"kind"`
	Address  string   `json:"address,omitempty"`
	Services []string `json:"services,omitempty"`
	From     string   `json:"from,omitempty"`
	To       string   `json:"to,omitempty"`
	// Nodes that joined or left.
	Nodes []string `json:"nodes,omitempty"`
	// Text says why, if that is known.
	Text string `json:"text,omitempty"`
}

// timeline remembers what has happened: what it saw itself, and what events say of the
// time before.
type timeline struct {
	all    []*happening // oldest first
	next   int
	where  map[string]string   // which node announced an address last
	silent map[string]string   // why nobody announces it
	routes map[string][]string // which nodes announced it to routers last
	agents map[string]string   // state of each node's agent
	events map[string]bool     // that were read, by UID and time
	seen   bool                // a first snapshot
}

func newTimeline() *timeline {
	return &timeline{where: map[string]string{}, silent: map[string]string{}, routes: map[string][]string{}, agents: map[string]string{}, events: map[string]bool{}}
}

// latest returns all that is remembered, oldest first.
func (t *timeline) latest() []*happening { return t.all }

func (t *timeline) add(h happening) {
	t.next++
	h.ID, h.At = fmt.Sprint(t.next), h.At.UTC().Truncate(time.Second)
	at, _ := slices.BinarySearchFunc(t.all, h.At, func(o *happening, at time.Time) int {
		if o.At.After(at) {
			return 1
		}
		return -1
	})
	t.all = slices.Insert(t.all, at, &h)
	if len(t.all) > maxHappenings {
		t.all = t.all[len(t.all)-maxHappenings:]
	}
}

// find returns what is remembered of an address at a time, to a node.
func (t *timeline) find(kind, address, to string, at time.Time) *happening {
	for _, h := range slices.Backward(t.all) {
		if h.Kind == kind && h.Address == address && h.To == to && h.At.Sub(at).Abs() <= sameTime {
			return h
		}
	}
	return nil
}

// see compares a snapshot with the last one.
func (t *timeline) see(s *snapshot.Snapshot) {
	addresses := s.Addresses(snapshot.Listing{}).Addresses
	owners := map[string][]string{}
	for i := range addresses {
		owners[addresses[i].Address] = addresses[i].Services
	}
	t.readEvents(s.Events, owners)
	for i := range addresses {
		t.seeAddress(&addresses[i], s.At)
	}
	for address := range t.where {
		if owners[address] == nil { // whoever gets it next did not move it
			delete(t.where, address)
			delete(t.silent, address)
		}
	}
	for address := range t.routes {
		if owners[address] == nil {
			delete(t.routes, address)
			delete(t.silent, address)
		}
	}
	for _, n := range s.NodeStates() {
		was, known := t.agents[n.Name]
		t.agents[n.Name] = n.State
		switch {
		case !t.seen && n.State != "lost" || known && (was == "lost") == (n.State == "lost"):
		case n.State == "lost":
			t.add(happening{At: s.At, Kind: "lost", To: n.Name, Text: n.Message})
		case was == "lost":
			t.add(happening{At: s.At, Kind: "back", To: n.Name})
		}
	}
	t.seen = true
}

// seeRoutes notes which nodes announce an address to routers. Those that begin or end at the same
// time are told of together.
func (t *timeline) seeRoutes(a *snapshot.Address, now time.Time) {
	was, is := t.routes[a.Address], a.Nodes
	t.routes[a.Address] = is
	if !t.seen {
		return
	}
	if came := without(is, was); len(came) > 0 {
		t.add(happening{At: now, Kind: "joined", Address: a.Address, Services: a.Services, Nodes: came})
	}
	if went := without(was, is); len(went) > 0 {
		t.add(happening{At: now, Kind: "left", Address: a.Address, Services: a.Services, Nodes: went})
	}
}

// without returns the names that are not among others.
func without(names, others []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(others, name) {
			out = append(out, name)
		}
	}
	return out
}

func (t *timeline) seeAddress(a *snapshot.Address, now time.Time) {
	t.seeRoutes(a, now)
	was, known := t.where[a.Address]
	if a.Node != "" {
		at := now
		if a.Since != nil && now.Sub(a.Since.Time) < sameTime {
			at = a.Since.Time
		}
		back := t.silent[a.Address] != ""
		t.where[a.Address] = a.Node
		delete(t.silent, a.Address)
		switch {
		case known && was != a.Node:
			if t.find("moved", a.Address, a.Node, at) == nil {
				t.add(happening{At: at, Kind: "moved", Address: a.Address, Services: a.Services, From: was, To: a.Node})
			}
		case back || !known && t.seen:
			t.add(happening{At: at, Kind: "announced", Address: a.Address, Services: a.Services, To: a.Node})
		}
		return
	}
	if a.Reason == "" && len(a.Nodes) > 0 { // routers hear of it
		if t.silent[a.Address] != "" && t.find("joined", a.Address, "", now) == nil {
			t.add(happening{At: now, Kind: "joined", Address: a.Address, Services: a.Services, Nodes: a.Nodes})
		}
		delete(t.silent, a.Address)
		return
	}
	if a.Reason == "" || t.silent[a.Address] == a.Reason {
		return // it is on its way to another node
	}
	t.silent[a.Address] = a.Reason
	kind := "silent"
	if a.Reason == string(lb.AddressConflict) {
		kind = "conflict"
	}
	if t.seen && t.find(kind, a.Address, "", now) == nil {
		t.add(happening{At: now, Kind: kind, Address: a.Address, Services: a.Services, From: was, Text: a.Reason})
	}
}

// moved is how agents report a move: lb.Moved.
var moved = regexp.MustCompile(`^Address (\S+) moved from (\S+), announcing from node "([^"]+)" with protocol "[^"]*": (.*)$`)

// conflict is how they report that another host has the address: lb.AddressConflict.
var conflict = regexp.MustCompile(`^Address (\S+) is used by another host`)

// readEvents takes over what events say. A tenant can write events, but only about
// Services of its own namespace: what does not concern an address of that Service is
// left out.
func (t *timeline) readEvents(events []corev1.Event, owners map[string][]string) {
	kept := make(map[string]bool, len(events))
	for i := range events {
		e := &events[i]
		at := cmp.Or(e.LastTimestamp.Time.UnixNano(), e.EventTime.UnixNano())
		when := e.LastTimestamp.Time
		if when.IsZero() {
			when = e.EventTime.Time
		}
		key := fmt.Sprint(e.UID, " ", at)
		kept[key] = true
		if t.events[key] || when.IsZero() {
			continue
		}
		about := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		h := happening{At: when, Services: []string{about}}
		if m := moved.FindStringSubmatch(e.Message); m != nil {
			h.Kind, h.Address, h.From, h.To, h.Text = "moved", m[1], m[2], m[3], sentence(m[4])
		} else if m := conflict.FindStringSubmatch(e.Message); m != nil {
			h.Kind, h.Address, h.Text = "conflict", m[1], e.Message
		} else {
			continue
		}
		if _, err := netip.ParseAddr(h.Address); err != nil || e.Namespace != e.InvolvedObject.Namespace || !slices.Contains(owners[h.Address], about) {
			continue
		}
		if same := t.find(h.Kind, h.Address, h.To, when); same != nil {
			if same.Text == "" || h.Kind == "conflict" {
				fuller := *same
				fuller.Text = h.Text
				*same = fuller
			}
			continue
		}
		t.add(h)
	}
	t.events = kept
}

// sentence is text with a capital letter and a full stop.
func sentence(text string) string {
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
