package ovn

import (
	"maps"
	"reflect"
)

// interest is what is known of a Service that was looked at.
type interest struct {
	desired  Service
	standing string
	settled  bool // it was as it is to be
	blocked  bool // it cannot be as it is to be
	// writing counts commits under way, and touched says that something has changed
	// meanwhile.
	writing int
	touched bool
}

// interests are those of all Services by namespace/name, and who is to hear of what.
type interests struct {
	all                     map[string]*interest
	byName, byVIP, byHolder multi
	byAddress               multi // of Services whose addresses are one router's
}

func newInterests() interests {
	return interests{all: map[string]*interest{}, byName: multi{}, byVIP: multi{}, byHolder: multi{}, byAddress: multi{}}
}

// of returns the interest of a Service, as it is to be now.
func (i *interests) of(s *Service) *interest {
	key := s.Key()
	in := i.all[key]
	if in == nil {
		in = &interest{}
		i.all[key] = in
	} else if reflect.DeepEqual(in.desired, *s) {
		return in
	} else {
		i.index(key, &in.desired, multi.remove)
	}
	in.desired, in.settled = *s, false
	i.index(key, s, multi.add)
	return in
}

func (i *interests) forget(key string) {
	if in := i.all[key]; in != nil {
		i.index(key, &in.desired, multi.remove)
		delete(i.all, key)
	}
}

func (i *interests) index(key string, s *Service, do func(multi, string, string)) {
	for _, l := range s.Listeners {
		do(i.byVIP, l.VIP.String(), key)
		do(i.byVIP, l.VIP.Addr().String(), key)
		do(i.byName, s.RowName(l.Protocol), key)
		if s.Sole {
			do(i.byAddress, l.VIP.Addr().String(), key)
		}
	}
	do(i.byHolder, holderKey(tableRouter, s.Router), key)
	for _, name := range s.Switches {
		do(i.byHolder, holderKey(tableSwitch, name), key)
	}
}

// concerned adds to dirty whom an update concerns, and to strays who has rows without an
// interest. It says whether northd has reported.
func (i *interests) concerned(t *touched, dirty, strays set) (programmed bool) {
	for owner := range t.owners {
		if i.all[owner] != nil {
			dirty[owner] = struct{}{}
		} else {
			strays[owner] = struct{}{}
		}
	}
	for name := range t.names {
		maps.Copy(dirty, i.byName[name])
	}
	for vip := range t.vips {
		maps.Copy(dirty, i.byVIP[vip])
	}
	for address := range t.addresses {
		maps.Copy(dirty, i.byAddress[address])
	}
	for holder := range t.holders {
		maps.Copy(dirty, i.byHolder[holder])
	}
	return t.programmed
}
