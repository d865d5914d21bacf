package controller

import (
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// request is what s asks for, as one of a class read like that.
func (c *common) request(s *lb.Service, in compat.Class, held lb.Held, labels map[string]string) lb.Request {
	r := c.readings.current().Request(s, labels, in)
	r.Evidence, r.Noted = held.Evidence, held.Noted
	if r.AsIs {
		stay(&r, s, held)
		return r
	}
	r.Leased = c.agents.leased(s.Key, r.Leased)
	return r
}

// unchanged is the request of a Service that is being deleted, or whose namespace is
// not known yet: it keeps exactly what it has until then, gets nothing new, waits for
// nothing, and does not move.
func (c *common) unchanged(s *lb.Service, in compat.Class, held lb.Held) lb.Request {
	r := c.readings.current().Request(s, nil, in)
	r.Evidence, r.Noted = held.Evidence, held.Noted
	stay(&r, s, held)
	return r
}

// stay makes r the request of a Service that goes on as it is.
func stay(r *lb.Request, s *lb.Service, held lb.Held) {
	reason := lb.Rebuilt(lb.Ready, "", true)
	switch {
	case s.Says != nil:
		reason = s.Says.Reason
	case held.Says != nil:
		reason = *held.Says
	}
	r.Invalid = &reason
}

// remark adds to a verdict what else there is to say: pools that cannot be read, and
// requests that are ignored. What the Service has comes first: it is read in the
// condition.
func (c *common) remark(s *lb.Service, r *lb.Request, v *lb.Verdict) {
	if v.Reason.Code == lb.NoPool && r.Unread != nil {
		v.Reason = v.Reason.And(*r.Unread)
	}
	ignore(v, r.Ignored)
	for _, d := range c.classes.dialects {
		if remarker, ok := d.(compat.Remarker); ok {
			ignore(v, remarker.Remark(s, v))
		}
	}
}

// ignore adds to a verdict what is ignored, if anything.
func ignore(v *lb.Verdict, ignored *lb.Reason) {
	if ignored == nil {
		return
	}
	ready := v.Reason.Code == lb.Ready
	if v.Reason = v.Reason.And(*ignored); ready {
		v.Reason.Code = ignored.Code
	}
}

// recallPool adds to the verdict of a Service that has an address of a pool that is gone
// which labels that pool had: agents advertise the address by them. After a restart, the
// Service itself says so.
func (c *common) recallPool(s *lb.Service, m *memo, v *lb.Verdict) {
	if len(v.Pools) > 0 {
		m.pools = v.Pools
	}
	if v.Reason.Code != lb.OutOfPool {
		return
	}
	former := s.FormerPool()
	if len(m.pools) > 0 {
		former = c.readings.formerPool(m.pools[0])
	}
	if former != nil && !c.readings.hasPool(former.Key) {
		v.Reason = former.Before(v.Reason)
	}
}
