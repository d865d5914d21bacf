package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.io/internal/conntrack"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/daemons"
	"fairlead.io/test/kit/invariant"
	"fairlead.io/test/kit/site"
)

// young is how old a process must be before it is measured: before, its memory grows to
// what it needs.
const young = time.Minute

// What is measured. The names of processes follow.
const (
	memory     = "memory in MiB, "
	goroutines = "goroutines, "
	tracked    = "tracked connections to our addresses on all nodes"
	elements   = "elements of our nftables sets on all nodes"
)

// growth is how much larger something may become. Memory is what the kernel counts, which
// goes up and down with collections of garbage.
func growth(what string) invariant.Growth {
	switch {
	case strings.HasPrefix(what, memory):
		return invariant.Growth{Share: 0.25, Slack: 16}
	case strings.HasPrefix(what, goroutines):
		return invariant.Growth{Share: 0.15, Slack: 15}
	case what == tracked: // some are under way
		return invariant.Growth{Share: 0.5, Slack: 50}
	default: // elements: those of connections that are carried come and go
		return invariant.Growth{Share: 0.1, Slack: 16}
	}
}

// measure tells the checker how much there is of everything that must not grow.
func (w *world) measure(ctx context.Context) error {
	return site.Await(ctx, 10*time.Second, func() error {
		now, err := w.count(ctx)
		if err != nil {
			return err
		}
		for what, n := range now {
			w.check.Measured(what, n)
		}
		return nil
	})
}

// count returns how much there is of everything. Processes are counted one by one: those
// that have ended do not grow any more.
func (w *world) count(ctx context.Context) (map[string]float64, error) {
	out := map[string]float64{}
	for _, node := range w.nodes {
		a := w.Agents[node]
		text, err := a.Metrics(ctx)
		if err := errors.Join(err, note(out, fmt.Sprintf("agent %d on %s", a.PID, node), a.Process, text)); err != nil {
			return nil, err
		}
		n, err := w.elements(ctx, node)
		if err != nil {
			return nil, err
		}
		out[elements] += n
	}
	n, err := w.tracked()
	if err != nil {
		return nil, err
	}
	out[tracked] = n
	for _, r := range w.replicas {
		r.mu.Lock()
		p := r.process
		r.mu.Unlock()
		text, err := daemons.Get(ctx, w.Cluster, sandbox.ControlHost, r.address(), "/metrics")
		if err != nil {
			continue // it has just been started
		}
		name := fmt.Sprintf("controller %d", p.PID)
		if strings.Contains(text, "\nfairlead_leader 1\n") { // which needs more
			name += ", leading"
		}
		if err := note(out, name, p, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// note adds what one process needs.
func note(out map[string]float64, name string, p *daemons.Process, metrics string) error {
	if time.Since(p.Started) < young {
		return nil
	}
	rss, _, err := p.Memory()
	if err != nil {
		return err
	}
	out[memory+name] = rss
	for line := range strings.Lines(metrics) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "go_goroutines "); is {
			out[goroutines+name], err = strconv.ParseFloat(text, 64)
			return err
		}
	}
	return errors.New(name + " does not say how many goroutines it has")
}

// tracked is how many connections to our addresses the kernels of all nodes believe to go
// on. They forget those that have ended by themselves.
func (w *world) tracked() (sum float64, err error) {
	ours := w.addresses()
	for _, node := range w.nodes {
		err = errors.Join(err, w.Cluster.In(node, func() error {
			found, err := conntrack.List(func(a netip.Addr) bool { return slices.Contains(ours, a) }, nil)
			sum += float64(len(found))
			return err
		}))
	}
	return sum, err
}

// elements is how many elements the sets of our tables of a node have.
func (w *world) elements(ctx context.Context, node string) (float64, error) {
	text, err := w.Cluster.Exec(ctx, node, "nft", "-j", "list", "ruleset")
	if err != nil {
		return 0, err
	}
	return countElements(text)
}

func countElements(ruleset []byte) (n float64, err error) {
	type set struct {
		Table string            `json:"table"`
		Elem  []json.RawMessage `json:"elem"`
	}
	var all struct {
		Nftables []struct{ Set, Map *set }
	}
	if err := json.Unmarshal(ruleset, &all); err != nil {
		return 0, fmt.Errorf("read the ruleset: %w", err)
	}
	for _, o := range all.Nftables {
		for _, s := range []*set{o.Set, o.Map} {
			if s != nil && strings.HasPrefix(s.Table, "fairlead") {
				n += float64(len(s.Elem))
			}
		}
	}
	return n, nil
}

// grownError says that something is larger at the end than in the beginning.
type grownError struct{ text string }

func (e *grownError) Error() string { return e.text }

// shrunk waits until there is no more of something than in the beginning and a slack.
func shrunk(ctx context.Context, what string, before, slack float64, count func() (float64, error)) (after float64, err error) {
	err = site.Await(ctx, time.Minute, func() (err error) {
		if after, err = count(); err == nil && after > before+slack {
			err = &grownError{fmt.Sprintf("%s: %.0f in the beginning, %.0f at the end", what, before, after)}
		}
		return err
	})
	return after, err
}

// sameElements compares the elements of our sets with those of the beginning: they belong
// to the same Services. Those of connections that are carried go after a while.
func (w *world) sameElements(ctx context.Context, before float64) (err error) {
	w.report.ElementsBefore = before
	w.report.ElementsAfter, err = shrunk(ctx, elements, before, 8, func() (sum float64, err error) {
		for _, node := range w.nodes {
			n, nodeErr := w.elements(ctx, node)
			sum, err = sum+n, errors.Join(err, nodeErr)
		}
		return sum, err
	})
	return err
}

// drained says whether connections are tracked although there is no traffic any more. A
// fault may leave one behind, whose end has met another node: it stays until the
// kernel drops it.
func (w *world) drained(ctx context.Context) (err error) {
	const few = 10
	w.report.TrackedAfter, err = shrunk(ctx, tracked, 0, few+float64(w.report.Happened()), w.tracked)
	return err
}
