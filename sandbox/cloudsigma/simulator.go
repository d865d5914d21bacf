package cloudsigma

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"fairlead.io/sandbox/simulator"
)

// Names that others use too.
type (
	Kind  = simulator.Kind
	Fault = simulator.Fault
	Call  = simulator.Call
)

// Kinds of objects, and of what else is asked for.
const (
	Servers       Kind = "servers"
	IPs           Kind = "ips"
	Tags          Kind = "tags"
	Subscriptions Kind = "subscriptions"
	VLANs         Kind = "vlans"
	Locations     Kind = "locations"
	Profile       Kind = "profile"
	Token         Kind = "token"       // of Keycloak
	Impersonation Kind = "impersonate" // of a user
)

// Options of a simulator. The zero value is a good start.
type Options struct {
	// Token may do everything for the user: as a bearer token, as his password, and as
	// the secret of the OAuth client. Default "sandbox".
	Token string
	// Email of the user; default user@example.com.
	Email string
	// ClientID of the OAuth client; default fairlead.
	ClientID string
	// Dynamic are the prefixes of addresses that are given by DHCP, and Subscribable of
	// those that can be bought. Default: prefixes that are set aside for documentation.
	Dynamic, Subscribable []netip.Prefix
	Knobs                 Knobs
	Seed                  uint64 // of all UUIDs; the same seed gives the same
	Clock                 simulator.Clock
}

// Simulator is a simulated cloud, safe for concurrent use.
type Simulator struct {
	*simulator.Front
	options Options

	mu            sync.Mutex
	random        *rand.Rand
	knobs         Knobs
	user, service *User // who the credentials belong to, and the OAuth client's own
	users         simulator.Table[User]
	sessions      map[string]session
	servers       simulator.Table[Server]
	ips           simulator.Table[IP]
	tags          simulator.Table[Tag]
	subscriptions simulator.Table[Subscription]
	vlans         simulator.Table[VLAN]
	unrouted      map[netip.Addr]bool
	before        []interference
	changed       []func()
}

// User has an account.
type User struct {
	UUID, Email, password string
}

// New returns a cloud with nothing in it.
func New(o Options) *Simulator {
	o.Token = cmp.Or(o.Token, "sandbox")
	o.Email = cmp.Or(o.Email, "user@example.com")
	o.ClientID = cmp.Or(o.ClientID, "fairlead")
	if o.Dynamic == nil {
		o.Dynamic = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/64")}
	}
	if o.Subscribable == nil {
		o.Subscribable = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:f::/64")}
	}
	s := &Simulator{
		options: o, knobs: o.Knobs.complete(), random: rand.New(rand.NewPCG(o.Seed, 0)),
		sessions: map[string]session{}, unrouted: map[netip.Addr]bool{},
	}
	s.Front = simulator.NewFront(s, o.Clock, nil)
	s.RequestID = "X-Request-Id"
	s.user = s.addUser(o.Email, o.Token)
	s.service = s.addUser("service-account-"+o.ClientID+"@example.com", o.Token)
	return s
}

// Token is the secret that may do everything.
func (s *Simulator) Token() string { return s.options.Token }

// AddUser adds another account, which has nothing to do with the first.
func (s *Simulator) AddUser(email, password string) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.addUser(email, password)
}

func (s *Simulator) addUser(email, password string) *User {
	u := &User{UUID: s.uuid(), Email: email, password: password}
	s.users.Add(u.UUID, u)
	return u
}

// uuid returns a new one.
func (s *Simulator) uuid() string { return simulator.UUID(s.random) }

// OnChange calls f after each change of what passes the firewalls. It must not
// call the simulator.
func (s *Simulator) OnChange(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

func (s *Simulator) change() {
	for _, f := range s.changed {
		f()
	}
}

// next is when something is due that began at since.
func next(since time.Time, delay simulator.Duration) time.Time {
	return since.Add(time.Duration(delay))
}
