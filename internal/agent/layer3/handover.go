package layer3

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
)

// takeoverTime is how long a successor may take until its loop works: meanwhile BFD goes on.
const takeoverTime = 3 * time.Second

// passed is what a successor needs besides descriptors, in which those of BFD come first.
type passed struct {
	BGP map[string]passedSession
	BFD bfd.Frozen
	// Descriptors is how many are BFD's.
	Descriptors int
	// Paths are what BFD watches, by the names of peers.
	Paths map[string]bfd.Peer
}

type passedSession struct {
	At     int // place of its descriptor
	Frozen *bgp.Frozen
}

// Freeze ends all sessions without a word, and returns what a successor needs to continue them.
// The caller closes the descriptors when they are handed over.
func (r *Routers) Freeze(ctx context.Context) (data []byte, fds []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	out := passed{BGP: map[string]passedSession{}, Paths: map[string]bfd.Peer{}}
	for name, p := range r.peers {
		if p.watch != nil && p.BFD != nil {
			out.Paths[name] = *p.watch
		}
	}
	sessions := r.bgp.Freeze(ctx)
	out.BFD = r.bfd.Freeze() // last: its time is short
	out.Descriptors = len(out.BFD.Descriptors)
	fds = append(fds, out.BFD.Descriptors...)
	for name, f := range sessions {
		out.BGP[name] = passedSession{len(fds), f}
		fds = append(fds, f.FD)
	}
	data, err := json.Marshal(out)
	if err != nil {
		r.o.Log.Error("BGP sessions cannot be handed over", "error", err)
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, nil
	}
	return data, fds
}

// Continue takes over the sessions of an earlier process, and owns the descriptors. It comes
// before Set.
func (r *Routers) Continue(data []byte, fds []int) {
	var in passed
	if err := json.Unmarshal(data, &in); err != nil || in.Descriptors < 0 || in.Descriptors > len(fds) {
		in = passed{} // of another build; routers see connections that break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := make([]bool, len(fds))
	sessions := map[string]*bgp.Frozen{}
	for name, s := range in.BGP {
		if s.Frozen == nil || s.At < in.Descriptors || s.At >= len(fds) || taken[s.At] {
			continue
		}
		s.Frozen.FD, taken[s.At] = fds[s.At], true
		sessions[name] = s.Frozen
	}
	for i := range in.Descriptors {
		taken[i] = true
	}
	for i, fd := range fds {
		if !taken[i] {
			_ = unix.Close(fd)
		}
	}
	r.grace.Store(time.Now().Add(takeoverTime).UnixNano())
	in.BFD.Descriptors = fds[:in.Descriptors]
	if len(in.BFD.Sessions) > 0 {
		r.bfd = bfd.Continue(r.ctx, bfd.Options{Wire: r.o.Wire, Beats: r.alive}, in.BFD)
	} else {
		in.BFD.Close()
	}
	r.inherited = in.Paths
	r.bgp.Continue(sessions)
	if len(sessions) > 0 {
		r.o.Log.Info("continuing BGP sessions of the earlier agent on this node", "sessions", len(sessions), "bfd", len(in.BFD.Sessions))
	}
}

// alive says whether keepalives and BFD packets may be sent.
func (r *Routers) alive() bool {
	return r.o.Alive == nil || r.o.Alive() || time.Now().UnixNano() < r.grace.Load()
}
