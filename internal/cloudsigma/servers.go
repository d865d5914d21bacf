package cloudsigma

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"fairlead.io/internal/cloud"
)

// Servers reads and changes servers.
type Servers struct {
	*Collection[Server]
	changes *cloud.Batches[serverChange, *Server]

	mu sync.Mutex
	// recent are servers as they were read a moment ago, and not written since.
	recent map[string]reading
	// writes counts the beginnings and ends of writes of each server.
	writes map[string]int
}

type reading struct {
	server *Server
	at     time.Time
}

// serverChange is an edit of one server.
type serverChange struct {
	edit func(*Server) error
	// next is the server that the caller changes afterwards: both are read at once, and
	// read back when the other is.
	next string
	// former is the server that the caller has changed before, by leave: it is read back
	// with this one.
	former string
	leave  func(*Server) error
}

const (
	// readingAge is how long what was read is good for a write. Whoever changes a server
	// meanwhile, besides us, loses the change: the cloud cannot tell.
	readingAge = 2 * time.Second
	// gather is how long a change waits for others if nothing has to be read.
	gather = 5 * time.Millisecond
)

func newServers(c *Collection[Server]) *Servers {
	s := &Servers{Collection: c, recent: map[string]reading{}, writes: map[string]int{}}
	s.changes = cloud.NewBatches(s.change)
	return s
}

// Change reads a server, lets edit change its cards, writes it, and returns it as
// it was read afterwards. If there is nothing to change, nothing is written.
//
// Changes of one server are done one after the other; those that wait are written
// together. edit is called several times, on different copies: it must do the
// same again each time, and nothing to a server that has what it wants. That is how
// a change that the cloud has accepted but not made is found: the error then
// IsIgnored. An error of edit itself is returned as it is, and concerns nobody
// else.
//
// A lost answer is no error if the change turns out to have been made.
func (s *Servers) Change(ctx context.Context, uuid string, edit func(*Server) error) (*Server, error) {
	return s.changes.Do(ctx, uuid, serverChange{edit: edit})
}

// Move is a Change of one server, and then of another. Each takes one call: both servers
// are read by one call before, and by one after. An error is a *MoveError.
func (s *Servers) Move(ctx context.Context, from string, leave func(*Server) error, to string, enter func(*Server) error) (*Server, error) {
	if _, err := s.changes.Do(ctx, from, serverChange{edit: leave, next: to}); err != nil {
		return nil, &MoveError{from, err}
	}
	now, err := s.changes.Do(ctx, to, serverChange{edit: enter, former: from, leave: leave})
	if _, is := errors.AsType[*MoveError](err); err != nil && !is {
		err = &MoveError{to, err}
	}
	return now, err
}

// MoveError says at which server a Move has failed.
type MoveError struct {
	Server string
	Err    error
}

func (e *MoveError) Error() string { return e.Err.Error() }
func (e *MoveError) Unwrap() error { return e.Err }

func (s *Servers) change(ctx context.Context, uuid string, b *cloud.Batch[serverChange]) []cloud.Outcome[*Server] {
	began := time.Now()
	before, err := s.before(ctx, uuid, b)
	b.Gather(ctx, time.Since(began))
	changes := b.Take()
	if err != nil {
		return failAll(make([]cloud.Outcome[*Server], len(changes)), err)
	}
	return s.makeAll(ctx, uuid, before, changes)
}

// failAll gives an error to those that have none yet.
func failAll(out []cloud.Outcome[*Server], err error) []cloud.Outcome[*Server] {
	for i := range out {
		if out[i].Err == nil {
			out[i] = cloud.Outcome[*Server]{Err: err}
		}
	}
	return out
}

// before is a server as it is before it is changed.
func (s *Servers) before(ctx context.Context, uuid string, b *cloud.Batch[serverChange]) (*Server, error) {
	s.mu.Lock()
	r := s.recent[uuid]
	s.mu.Unlock()
	if r.server != nil && time.Since(r.at) < readingAge {
		select {
		case <-time.After(gather):
		case <-ctx.Done():
		}
		return r.server, ctx.Err()
	}
	uuids := []string{uuid}
	for _, c := range b.Waiting() {
		uuids = append(uuids, c.next)
	}
	all, err := s.read(ctx, uuids...)
	if err != nil {
		return nil, err
	}
	return all[uuid].Value, all[uuid].Err
}

// read reads servers, each of which may be missing, by as few calls as possible.
func (s *Servers) read(ctx context.Context, uuids ...string) (map[string]cloud.Outcome[*Server], error) {
	s.mu.Lock()
	began, writes := time.Now(), maps.Clone(s.writes)
	s.mu.Unlock()
	all, err := s.Some(ctx, uuids)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.recent {
		if time.Since(r.at) >= readingAge {
			delete(s.recent, id)
		}
	}
	for id, o := range all {
		if n := s.writes[id]; o.Err == nil && n == writes[id] && n%2 == 0 {
			s.recent[id] = reading{o.Value, began}
		}
	}
	return all, err
}

// makeAll makes changes of a server that was read.
func (s *Servers) makeAll(ctx context.Context, uuid string, before *Server, changes []serverChange) []cloud.Outcome[*Server] {
	out := make([]cloud.Outcome[*Server], len(changes))
	after := before.clone()
	for i, c := range changes {
		edited := after.clone()
		if out[i].Err = c.edit(edited); out[i].Err == nil {
			after = edited
		}
	}
	var written error
	if !sameCards(before, after) {
		written = s.write(ctx, uuid, after)
	}
	if cloud.IsInvalid(written) && len(changes) > 1 {
		// One of them is wrong: not the others' fault.
		for i := range changes {
			if out[i].Err != nil {
				continue
			}
			now, err := s.Get(ctx, uuid)
			if err != nil {
				out[i].Err = err
				continue
			}
			out[i] = s.makeAll(ctx, uuid, now, changes[i:i+1])[0]
		}
		return out
	}
	return s.readBack(ctx, uuid, before, after, written, changes, out)
}

// readBack finds out what has become of changes.
func (s *Servers) readBack(ctx context.Context, uuid string, before, after *Server, written error, changes []serverChange, out []cloud.Outcome[*Server]) []cloud.Outcome[*Server] {
	refused := written != nil && !cloud.IsOutcomeUnknown(written)
	var uuids []string
	for i, c := range changes {
		if c.former != "" {
			uuids = append(uuids, c.former)
		}
		if out[i].Err == nil && (c.next == "" || written != nil) && !refused && !sameCards(before, after) {
			uuids = append(uuids, uuid)
		}
	}
	now := map[string]cloud.Outcome[*Server]{}
	if len(uuids) > 0 {
		var err error
		if now, err = s.read(ctx, uuids...); err != nil {
			return failAll(out, errors.Join(written, err))
		}
	}
	if _, read := now[uuid]; !read {
		now[uuid] = cloud.Outcome[*Server]{Value: after}
	}
	for i, c := range changes {
		switch {
		case out[i].Err != nil:
			continue
		case c.former != "":
			if err := s.made(now[c.former], c.former, c.leave); err != nil {
				out[i].Err = &MoveError{c.former, err}
				continue
			}
		}
		if refused {
			out[i].Err = written
		} else if out[i].Err = s.made(now[uuid], uuid, c.edit); out[i].Err == nil {
			out[i].Value = now[uuid].Value
		} else if written != nil {
			out[i].Err = errors.Join(written, ignoredAside(out[i].Err))
		}
	}
	return out
}

// ignoredAside is nil of a change that was not made: why is known.
func ignoredAside(err error) error {
	if IsIgnored(err) {
		return nil
	}
	return err
}

// made is nil if a server has what an edit wants.
func (s *Servers) made(now cloud.Outcome[*Server], uuid string, edit func(*Server) error) error {
	if now.Err != nil {
		return now.Err
	}
	again := now.Value.clone()
	if err := edit(again); err != nil || !sameCards(now.Value, again) {
		return &IgnoredError{s.kind, uuid}
	}
	return nil
}

func (s *Servers) countWrite(uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes[uuid]++
	delete(s.recent, uuid)
}

// Forget what is known about servers: whoever needs one reads it.
func (s *Servers) Forget() {
	s.mu.Lock()
	clear(s.recent)
	s.mu.Unlock()
	s.Collection.Forget()
}

// write sends a server's whole definition. What comes back is not looked at.
func (s *Servers) write(ctx context.Context, uuid string, to *Server) error {
	path, err := s.one(uuid)
	if err != nil {
		return err
	}
	s.countWrite(uuid)
	defer s.countWrite(uuid)
	return s.transport.Do(ctx, cloud.Call{Method: http.MethodPut, Kind: s.kind, Path: path, In: to.definition(), Secrets: []string{to.password()}})
}
