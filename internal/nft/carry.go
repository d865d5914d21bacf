package nft

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
)

// CarriedName is the name of the tables that send packets of established connections to the
// node that has them, after their address has moved here.
const CarriedName = Name + "-carried"

const (
	// CarryTime is how long the kernel sends the packets of a connection on after it was
	// last told to. An agent that is gone for good does not leave this behind.
	CarryTime = time.Minute
	// CarryLimit is how many connections are carried at most: about 20 MB of the kernel's
	// memory.
	CarryLimit = 1 << 17
	// SettleTime is the longest that Settle makes a client wait.
	SettleTime = time.Second
)

// ErrTooManyCarried says that connections beyond CarryLimit were left out.
var ErrTooManyCarried = fmt.Errorf("more than %d connections to send on", CarryLimit)

// LeftOutError says that Update has left connections out, and has done all else.
type LeftOutError struct {
	Carried []Carried
	Why     error
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("%d connections left out: %v", len(e.Carried), e.Why)
}

func (e *LeftOutError) Unwrap() error { return e.Why }

func (e *LeftOutError) add(why error, more ...Carried) {
	if len(more) > 0 {
		e.Carried, e.Why = append(e.Carried, more...), why
	}
}

// err is e if something was left out.
func (e *LeftOutError) err() error {
	if len(e.Carried) == 0 {
		return nil
	}
	return e
}

// Carried is a connection that another node goes on serving: its packets are sent there.
type Carried struct {
	conntrack.Conn
	// Via is that node's address on the interface. Link-local is fine.
	Via       netip.Addr
	Interface string
}

// CarryInterface is an interface on which packets to carried addresses arrive.
type CarryInterface struct {
	Name string
	// MAC is needed for a bridge only.
	MAC net.HardwareAddr
	// Ports are those of a bridge: packets are taken as they arrive at them. The bridge itself
	// is too late if bridged packets are translated (net.bridge.bridge-nf-call-iptables).
	Ports []string
}

// Carrier keeps which connections are carried.
type Carrier interface {
	// Prepare makes everything but elements, and keeps those that are there. It does nothing
	// if nothing has changed. Interfaces that are not named are no longer served. Nodes are
	// the hardware addresses of all nodes: what comes from one of them was carried
	// already, and is not carried again. An interface that does not exist is left out. If
	// anything was written, elements may be missing: add all of them again.
	Prepare(interfaces []CarryInterface, nodes []net.HardwareAddr) (written bool, err error)
	// Settle drops, for a time of at most SettleTime, packets in the middle of TCP
	// connections to an address that this node does not know, which it would reset otherwise:
	// whether another node has them is still being found out. Settled ends that.
	Settle(address netip.Addr, d time.Duration) error
	Settled(address netip.Addr) error
	// Update adds, changes and removes connections. Each ends after CarryTime, unless it is
	// added again. One that is in both is added. Those beyond CarryLimit, on interfaces that are
	// not prepared, or that no element can be made of, are left out, with a LeftOutError. ErrTampered says that the tables
	// are not there: Prepare, and add all of them again.
	Update(add, remove []Carried) error
	// Carried are the connections that the kernel has, also those of an earlier agent.
	Carried() ([]Carried, error)
	// Leftover says whether there are tables, also of an earlier agent, and which hardware
	// addresses are a node's in them.
	Leftover() (nodes []net.HardwareAddr, there bool, err error)
	// Packets is how many have been carried.
	Packets() (uint64, error)
	// Remove removes all of it.
	Remove() error
	// Close leaves the kernel as it is.
	Close() error
}

var _ Carrier = (*CarryTable)(nil)

// CarryTable is the Carrier of this node's kernel: a table in the family netdev, whose rules see
// packets as they come in, before connection tracking, and one in inet for Settle. All
// methods may be called at the same time.
type CarryTable struct {
	// conn's lock guards all of it.
	conn  *conn
	netns int
	time  time.Duration // CarryTime, less in tests
	most  int           // CarryLimit, less in tests
	// have is which element has which value, as far as it may not have expired.
	have     map[carryKey]carryValue
	count    int  // of connections in have
	known    bool // have is what the kernel has
	pruned   time.Time
	prepared string // what Prepare has written
	served   []string
}

type carryKey struct{ set, key string }

type carryValue struct {
	via   string
	until time.Time
}

// OpenCarrier opens the tables. It makes nothing: Prepare does.
func OpenCarrier() (*CarryTable, error) { return OpenCarrierIn(0) }

// OpenCarrierIn is OpenCarrier in the network namespace of a file descriptor, as OpenIn is Open.
func OpenCarrierIn(netns int) (*CarryTable, error) {
	c, err := dial(netns)
	if err != nil {
		return nil, err
	}
	return &CarryTable{conn: c, netns: netns, time: CarryTime, most: CarryLimit}, nil
}

// Close is as Carrier.Close.
func (t *CarryTable) Close() error {
	t.conn.Lock()
	defer t.conn.Unlock()
	return t.conn.CloseLasting()
}

// Remove is as Carrier.Remove.
func (t *CarryTable) Remove() error {
	t.conn.Lock()
	defer t.conn.Unlock()
	t.prepared, t.known = "", false
	for _, table := range []*nftables.Table{carryTable, settleTable} {
		t.conn.AddTable(table)
		t.conn.DelTable(table)
	}
	if err := t.conn.commit(); err != nil {
		return fmt.Errorf("remove tables %s: %w", CarriedName, err)
	}
	return nil
}

// Settle is as Carrier.Settle.
func (t *CarryTable) Settle(address netip.Addr, d time.Duration) error {
	if err := checkCarried(address); err != nil {
		return err
	}
	if d = min(d, SettleTime); d < time.Millisecond {
		return t.Settled(address)
	}
	s := settling(lb.FamilyOf(address))
	e := []nftables.SetElement{{Key: address.AsSlice(), Timeout: d}}
	return t.transact("wait for the list of connections to "+address.String(), func() error {
		return errors.Join(t.conn.SetAddElements(s, e), t.conn.SetDeleteElements(s, e), t.conn.SetAddElements(s, e))
	})
}

// Settled is as Carrier.Settled.
func (t *CarryTable) Settled(address netip.Addr) error {
	if err := checkCarried(address); err != nil {
		return err
	}
	s := settling(lb.FamilyOf(address))
	e := []nftables.SetElement{{Key: address.AsSlice(), Timeout: SettleTime}}
	return t.transact("accept connections to "+address.String(), func() error {
		return errors.Join(t.conn.SetAddElements(s, e), t.conn.SetDeleteElements(s, e))
	})
}

func checkCarried(a netip.Addr) error {
	if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
		return fmt.Errorf("%v is not an address of a Service", a)
	}
	return nil
}

// transact writes what fill adds to the transaction.
func (t *CarryTable) transact(what string, fill func() error) error {
	t.conn.Lock()
	defer t.conn.Unlock()
	return t.write(what, fill)
}

func (t *CarryTable) write(what string, fill func() error) error {
	if err := fill(); err != nil {
		return t.conn.abandon(err)
	}
	if err := t.conn.commit(); err != nil {
		t.known = false
		if errors.Is(err, unix.ENOENT) {
			t.prepared = ""
			err = ErrTampered
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Packets is as Carrier.Packets.
func (t *CarryTable) Packets() (uint64, error) {
	t.conn.Lock()
	defer t.conn.Unlock()
	o, err := t.conn.GetObject(&nftables.CounterObj{Table: carryTable, Name: counterName})
	if err != nil {
		return 0, fmt.Errorf("read how many packets were carried: %w", err)
	}
	c, ok := o.(*nftables.CounterObj)
	if !ok {
		return 0, errors.New("read how many packets were carried: no counter")
	}
	return c.Packets, nil
}

// Carried is as Carrier.Carried.
func (t *CarryTable) Carried() ([]Carried, error) {
	t.conn.Lock()
	defer t.conn.Unlock()
	if err := t.read(); err != nil {
		return nil, err
	}
	return t.decode(), nil
}

// Leftover is as Carrier.Leftover.
func (t *CarryTable) Leftover() (nodes []net.HardwareAddr, there bool, err error) {
	t.conn.Lock()
	defer t.conn.Unlock()
	sets, err := t.conn.GetSets(carryTable)
	if err != nil && !isNotFound(err) {
		return nil, false, fmt.Errorf("list nftables sets: %w", err)
	}
	for _, s := range sets {
		if s.Name != nodesSet().Name {
			continue
		}
		elems, err := t.conn.GetSetElements(s)
		if err != nil {
			return nil, true, fmt.Errorf("read set %s: %w", s.Name, err)
		}
		for _, e := range elems {
			if len(e.Key) == 6 {
				nodes = append(nodes, net.HardwareAddr(e.Key))
			}
		}
	}
	return nodes, len(sets) > 0, nil
}

func (t *CarryTable) decode() []Carried {
	out := make([]Carried, 0, len(t.have))
	for k, v := range t.have {
		if c, ok := decodeCarried(k.set, []byte(k.key), []byte(v.via)); ok {
			out = append(out, c)
		}
	}
	return out
}

// read fills have.
func (t *CarryTable) read() error {
	have, count := map[carryKey]carryValue{}, 0
	sets, err := t.conn.GetSets(carryTable)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("list nftables sets: %w", err)
	}
	now := time.Now()
	for _, s := range sets {
		if _, _, _, ok := carrySetOf(s.Name); !ok {
			continue
		}
		elems, err := t.conn.GetSetElements(s)
		if err != nil {
			return fmt.Errorf("read set %s: %w", s.Name, err)
		}
		for _, e := range elems {
			k := carryKey{s.Name, string(e.Key)}
			have[k] = carryValue{string(e.Val), now.Add(e.Expires)}
			if k.isConnection() {
				count++
			}
		}
	}
	t.have, t.count, t.known = have, count, true
	return nil
}

// batchOfCarried is how many connections one transaction has at most. The kernel holds up
// everybody else's while it works on it.
const batchOfCarried = 1024

// Update is as Carrier.Update.
func (t *CarryTable) Update(add, remove []Carried) error {
	t.conn.Lock()
	defer t.conn.Unlock()
	add, unserved, why := t.ofServed(add)
	remove, _, _ = t.ofServed(remove)
	want, gone, out := encodeCarried(add, remove)
	out.add(why, unserved...)
	known := t.known
	more, err := t.change(want, gone)
	out.add(ErrTooManyCarried, more...)
	if err != nil && known {
		// Somebody else has written elements, perhaps the agent before or after this one.
		more, err = t.change(want, gone)
		out.add(ErrTooManyCarried, more...)
	}
	if err != nil {
		return err
	}
	return out.err()
}

// change writes elements. It returns also what is beyond the limit, and takes that out of want.
func (t *CarryTable) change(want carryElements, gone []carryKey) (out []Carried, err error) {
	if !t.known {
		if err := t.read(); err != nil {
			return nil, err
		}
	}
	t.prune(time.Now())
	gone = slices.DeleteFunc(slices.Clone(gone), func(k carryKey) bool { _, is := t.have[k]; return !is })
	out = t.limit(want, t.most+len(gone))
	keys := slices.SortedFunc(maps.Keys(want), compareCarried)
	for len(gone)+len(keys) > 0 {
		part := gone[:min(batchOfCarried, len(gone))]
		gone = gone[len(part):]
		more := keys[:min(batchOfCarried-len(part), len(keys))]
		keys = keys[len(more):]
		if err := t.update(part, more, want); err != nil {
			return out, err
		}
	}
	return out, nil
}

// ofServed returns those on interfaces that Prepare was called for, and the others.
func (t *CarryTable) ofServed(all []Carried) (served, out []Carried, why error) {
	if t.prepared == "" {
		return all, nil, nil // as an earlier agent has left it
	}
	for _, c := range all {
		if slices.Contains(t.served, c.Interface) {
			served = append(served, c)
			continue
		}
		out = append(out, c)
		why = errUnprepared(c.Interface)
	}
	return served, out, why
}

func errUnprepared(iface string) error {
	return fmt.Errorf("interface %q is not prepared for connections of other nodes", iface)
}

// prune forgets what has expired, now and then.
func (t *CarryTable) prune(now time.Time) {
	if now.Before(t.pruned.Add(t.time / 4)) {
		return
	}
	t.pruned = now
	maps.DeleteFunc(t.have, func(k carryKey, v carryValue) bool {
		expired := now.After(v.until)
		if expired && k.isConnection() {
			t.count--
		}
		return expired
	})
}

// limit takes connections out of want that are beyond the most, and returns them.
func (t *CarryTable) limit(want carryElements, most int) (out []Carried) {
	if t.count+len(want) <= most {
		return nil
	}
	n := t.count
	for k, via := range want {
		if _, known := t.have[k]; known || !k.isConnection() {
			continue
		}
		if n++; n > most {
			delete(want, k)
			if c, ok := decodeCarried(k.set, []byte(k.key), []byte(via)); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

func compareCarried(a, b carryKey) int {
	return cmp.Or(strings.Compare(a.set, b.set), strings.Compare(a.key, b.key))
}

// update writes one transaction. An element that is added is there or not, and one that
// is to be removed may have expired: neither matters if it is added with the value that
// it has, removed, and added with the value that it gets. An addition does not prolong what
// is there before Linux 6.12.
func (t *CarryTable) update(gone, keys []carryKey, want carryElements) error {
	until := time.Now().Add(t.time)
	err := t.write(fmt.Sprintf("carry %d connections and no longer %d", len(keys), len(gone)), func() error {
		was, is := map[string][]nftables.SetElement{}, map[string][]nftables.SetElement{}
		moved := [len(lb.Families)]map[string]bool{{}, {}}
		for _, k := range gone {
			was[k.set] = append(was[k.set], t.element(k.key, t.have[k].via))
		}
		for _, k := range keys {
			old, known := t.have[k]
			if !known {
				old.via = want[k]
			}
			was[k.set] = append(was[k.set], t.element(k.key, old.via))
			is[k.set] = append(is[k.set], t.element(k.key, want[k]))
			f, service := k.service()
			moved[f][service] = true
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			s := carrySet(name)
			if err := errors.Join(inChunks(s, was[name], t.conn.SetAddElements), inChunks(s, was[name], t.conn.SetDeleteElements),
				inChunks(s, is[name], t.conn.SetAddElements)); err != nil {
				return err
			}
		}
		for _, f := range lb.Families {
			var elems []nftables.SetElement
			for a := range moved[f] {
				elems = append(elems, nftables.SetElement{Key: []byte(a), Timeout: t.time})
			}
			s := movedSet(f)
			if err := errors.Join(inChunks(s, elems, t.conn.SetAddElements), inChunks(s, elems, t.conn.SetDeleteElements),
				inChunks(s, elems, t.conn.SetAddElements)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range gone {
		delete(t.have, k)
		t.count--
	}
	for _, k := range keys {
		if _, known := t.have[k]; !known && k.isConnection() {
			t.count++
		}
		t.have[k] = carryValue{want[k], until}
	}
	return nil
}

func (t *CarryTable) element(key, via string) nftables.SetElement {
	return nftables.SetElement{Key: []byte(key), Val: []byte(via), Timeout: t.time}
}

func inChunks(s *nftables.Set, all []nftables.SetElement, do func(*nftables.Set, []nftables.SetElement) error) error {
	for part := range slices.Chunk(all, chunk) {
		if err := do(s, part); err != nil {
			return fmt.Errorf("elements of %s: %w", s.Name, err)
		}
	}
	return nil
}
