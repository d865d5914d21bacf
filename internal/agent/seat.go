package agent

import (
	"errors"
	"net"
	"sync"
)

// seat belongs to the one active agent of a node: an abstract unix socket,
// which belongs to the node's network namespace and so is seen by the old and
// the new pod of an upgrade, and which the kernel frees when its holder dies.
//
// An agent that finds the seat taken is the successor: it connects and waits
// until the holder is gone. A holder that has to end and has a successor
// leaves everything in the kernel as it is; the successor takes it over before
// the fences expire.
//
// Every process in the node's network can take such a name, and connect to it. So
// both sides prove that they have the gossip key (see seatKey). A successor that
// does not is none. A holder that does not is waited for a while, because builds
// from before the proof do not, and then passed over: the seat has several names.
type seat struct {
	listener *net.UnixListener // nil: none of the names was to be had
	key      seatKey
	unproven func(why string)

	mu sync.Mutex
	// visitors are all who have connected, the oldest first. Proven ones are
	// successors. What a holder passes on to one besides the kernel's state, such as
	// open connections, goes through its visitor's connection.
	visitors []*visitor
	left     bool

	legacy legacy // of the holder before
}

type visitor struct {
	conn   *net.UnixConn
	proven bool
}

// maxVisitors is how many may be connected; more than one successor is rare.
const maxVisitors = 8

func (s *seat) accept(i int) {
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		if err := sameUser(conn); err != nil {
			_ = conn.Close()
			s.unproven(err.Error())
			continue
		}
		v := &visitor{conn: conn}
		if s.add(v) {
			go s.serve(v, s.key.name(i).Name)
		}
	}
}

// add takes in a visitor. Another one has to go if there are too many.
func (s *seat) add(v *visitor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		_ = v.conn.Close()
		return false
	}
	s.visitors = append(s.visitors, v)
	for _, o := range s.visitors {
		if len(s.visitors) > maxVisitors && !o.proven {
			s.remove(o)
			break
		}
	}
	return true
}

// remove closes a visitor. The caller has the lock.
func (s *seat) remove(v *visitor) {
	for i, o := range s.visitors {
		if o == v {
			s.visitors = append(s.visitors[:i:i], s.visitors[i+1:]...)
			break
		}
	}
	_ = v.conn.Close()
}

func (s *seat) serve(v *visitor, name string) {
	err := s.key.proveHolder(v.conn, name)
	s.mu.Lock()
	v.proven = err == nil
	s.mu.Unlock()
	switch {
	case errors.Is(err, errSilent):
		// Perhaps an agent of an earlier build, which would try again at once. It does
		// not count.
	case errors.Is(err, errUnproven):
		s.unproven(err.Error())
		_ = v.conn.Close()
	}
	_, _ = v.conn.Read(make([]byte, 1)) // the successor writes nothing any more
	s.mu.Lock()
	s.remove(v)
	s.mu.Unlock()
}

// hasSuccessor says whether another agent waits for the seat.
func (s *seat) hasSuccessor() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.visitors {
		if v.proven {
			return true
		}
	}
	return false
}

// leave frees the seat.
func (s *seat) leave() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	for _, v := range s.visitors {
		_ = v.conn.Close()
	}
}
