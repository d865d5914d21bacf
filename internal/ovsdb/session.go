package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Names of the monitors of a session.
const (
	monitorServer = "server"
	monitorRows   = "rows"
)

// serverDatabase is where a server says how its databases are.
const serverDatabase = "_Server"

var errNotLeader = errors.New("the server is not the leader of its cluster")

// session is one connection with its monitors.
type session struct {
	endpoint Endpoint
	database string
	handler  Handler
	usable   func(*session)
	conn     *conn
	schema   Schema
	reader   sync.WaitGroup
	over     chan struct{} // closed when the handler knows that the session has ended

	// Of the reader only.
	began  bool                      // the handler has all rows
	states map[string]*databaseState // of all databases of the server, by UUID
}

// databaseState is a row of the table Database.
type databaseState struct {
	name              string
	leader, connected bool
}

// connect makes a session whose handler has all rows. usable is called before the handler
// gets them.
func connect(ctx context.Context, e Endpoint, o *Options, usable func(*session)) (*session, error) {
	c, err := e.dial(ctx, o.TLS)
	if err != nil {
		return nil, err
	}
	s := &session{endpoint: e, database: o.Database, handler: o.Handler, usable: usable, over: make(chan struct{}), states: map[string]*databaseState{}}
	s.conn = newConn(c, s.notified)
	s.reader.Go(s.conn.read)
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if err := s.setUp(ctx); err != nil {
		s.conn.close(err)
		s.end(err)
		return nil, err
	}
	return s, nil
}

// end tells the handler, once nothing of the session runs any more.
func (s *session) end(why error) {
	s.wait()
	if s.began {
		s.handler.End(why)
	}
	close(s.over)
}

func (s *session) setUp(ctx context.Context) error {
	// First whether it leads: rows of others may be old.
	columns := map[string]any{"Database": []any{map[string]any{"columns": []string{"name", "leader", "connected"}}}}
	if _, err := s.conn.call(ctx, "monitor_cond", []any{serverDatabase, monitorServer, columns}, s.serverUpdate); err != nil {
		return err
	}
	raw, err := s.conn.call(ctx, "get_schema", []any{s.database}, nil)
	if err != nil {
		return err
	}
	if s.schema, err = parseSchema(raw); err != nil {
		return err
	}
	tables, err := s.handler.Tables(s.schema)
	if err != nil {
		return err
	}
	requests := make(map[string]any, len(tables))
	for table, m := range tables {
		request := map[string]any{"columns": m.Columns}
		if len(m.Where) > 0 {
			request["where"] = m.Where
		}
		requests[table] = []any{request}
	}
	_, err = s.conn.call(ctx, "monitor_cond", []any{s.database, monitorRows, requests}, func(raw json.RawMessage) error {
		updates, err := parseUpdates(raw)
		if err != nil {
			return err
		}
		s.began = true
		s.usable(s)
		return s.handler.Begin(updates)
	})
	return err
}

// notified gets what monitors report.
func (s *session) notified(monitor string, raw json.RawMessage) error {
	switch monitor {
	case monitorServer:
		return s.serverUpdate(raw)
	case monitorRows:
		updates, err := parseUpdates(raw)
		if err != nil {
			return err
		}
		return s.handler.Update(updates)
	default:
		return fmt.Errorf("notification of unknown monitor %.100q", monitor)
	}
}

// serverUpdate is an error unless the server leads, and is connected to the majority.
func (s *session) serverUpdate(raw json.RawMessage) error {
	updates, err := parseUpdates(raw)
	if err != nil {
		return err
	}
	for id, u := range updates["Database"] {
		d := s.states[id]
		if u.Change == Deleted {
			delete(s.states, id)
			continue
		}
		if d == nil {
			d = &databaseState{}
			s.states[id] = d
		}
		for column, v := range u.Columns {
			switch column {
			case "name":
				d.name = v.String()
			case "leader":
				d.leader = v.String() == "true"
			case "connected":
				d.connected = v.String() == "true"
			}
		}
	}
	for _, d := range s.states {
		switch {
		case d.name != s.database:
		case !d.connected:
			return errors.New("the server is not connected to its cluster")
		case !d.leader:
			return errNotLeader
		default:
			return nil
		}
	}
	return fmt.Errorf("the server has no database %s", s.database)
}

// keep returns why the session has ended. A server that is silent is asked whether it is
// still there.
func (s *session) keep(ctx context.Context) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.conn.close(context.Cause(ctx))
		case <-tick.C:
			if time.Since(time.Unix(0, s.conn.heard.Load())) < probeInterval {
				continue
			}
			asking, cancel := context.WithTimeout(ctx, probeTimeout)
			if _, err := s.conn.call(asking, "echo", []any{}, nil); err != nil {
				s.conn.close(err)
			}
			cancel()
		case <-s.conn.ended:
			return s.conn.why()
		}
	}
}

// wait returns when nothing of the session runs any more.
func (s *session) wait() { s.reader.Wait() }
