package cloudsigma

import (
	"context"
	"errors"
	"net/http"

	"fairlead.io/internal/cloud"
)

// Servers reads and changes servers.
type Servers struct {
	*Collection[Server]
	changes *cloud.Batches[func(*Server) error, *Server]
}

func newServers(c *Collection[Server]) *Servers {
	s := &Servers{Collection: c}
	s.changes = cloud.NewBatches(s.changeAll)
	return s
}

// Change reads a server, lets change edit its cards, writes it, and returns it as
// it was read afterwards. If there is nothing to change, nothing is written.
//
// Changes of one server are done one after the other; those that wait are written
// together. change is called several times, on different copies: it must do the
// same again each time, and nothing to a server that has what it wants. That is how
// a change that the cloud has accepted but not made is found: the error then
// IsIgnored. An error of change itself is returned as it is, and concerns nobody
// else.
//
// A lost answer is no error if the change turns out to have been made.
func (s *Servers) Change(ctx context.Context, uuid string, change func(*Server) error) (*Server, error) {
	return s.changes.Do(ctx, uuid, change)
}

func (s *Servers) changeAll(ctx context.Context, uuid string, changes []func(*Server) error) []cloud.Outcome[*Server] {
	out := make([]cloud.Outcome[*Server], len(changes))
	fail := func(err error) []cloud.Outcome[*Server] {
		for i := range out {
			if out[i].Err == nil {
				out[i] = cloud.Outcome[*Server]{Err: err}
			}
		}
		return out
	}
	before, err := s.Get(ctx, uuid)
	if err != nil {
		return fail(err)
	}
	after := before.clone()
	for i, change := range changes {
		edited := after.clone()
		if out[i].Err = change(edited); out[i].Err == nil {
			after = edited
		}
	}
	if sameCards(before, after) {
		for i := range out {
			if out[i].Err == nil {
				out[i].Value = before
			}
		}
		return out
	}
	written := s.write(ctx, uuid, after)
	if cloud.IsInvalid(written) && len(changes) > 1 {
		// One of them is wrong: not the others' fault.
		for i := range changes {
			if out[i].Err == nil {
				out[i] = s.changeAll(ctx, uuid, changes[i:i+1])[0]
			}
		}
		return out
	}
	if written != nil && !cloud.IsOutcomeUnknown(written) {
		return fail(written)
	}
	now, err := s.Get(ctx, uuid)
	if err != nil {
		return fail(errors.Join(written, err))
	}
	for i, change := range changes {
		if out[i].Err != nil {
			continue
		}
		again := now.clone()
		switch err := change(again); {
		case err == nil && sameCards(now, again):
			out[i].Value = now
		case written != nil:
			out[i].Err = written
		default:
			out[i].Err = &IgnoredError{s.kind, uuid}
		}
	}
	return out
}

// write sends a server's whole definition. What comes back is not looked at.
func (s *Servers) write(ctx context.Context, uuid string, to *Server) error {
	path, err := s.one(uuid)
	if err != nil {
		return err
	}
	return s.transport.Do(ctx, cloud.Call{Method: http.MethodPut, Kind: s.kind, Path: path, In: to.definition(), Secrets: []string{to.password()}})
}
