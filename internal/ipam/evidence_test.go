package ipam

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"fairlead.io/internal/lb"
)

// At start, what a tenant wrote on a Service holds an address that nobody else has.
func TestAssertedIsHeldAtStart(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
	r := requestOf("a", 1)
	r.Evidence = lb.Asserted
	a.Import(r, addrs("192.0.2.3"))
	if changed := a.SettleAll(); len(changed) != 1 {
		t.Errorf("changed: %v", changed)
	}
	wantVerdict(t, a, "a", "192.0.2.3", lb.Ready)
}

// Of two Services with one address, the one with the better evidence has it, then the older one.
// Both are told. But a tenant's word against anything better is not worth an event.
func TestContestsByEvidence(t *testing.T) {
	const proven, reported, asserted = lb.Proven, lb.Reported, lb.Asserted
	for _, test := range []struct {
		older, younger lb.Evidence
		winner         string
		told           bool
	}{
		{proven, proven, "older", true},
		{reported, reported, "older", true},
		{proven, reported, "older", true},
		{reported, proven, "younger", true},
		{proven, asserted, "older", false},
		{reported, asserted, "older", false},
		{asserted, proven, "younger", false},
		{asserted, reported, "younger", false},
	} {
		for _, olderFirst := range []bool{true, false} {
			a := New()
			a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
			old, young := requestOf("older", 1), requestOf("younger", 2)
			old.Evidence, young.Evidence = test.older, test.younger
			both := []lb.Request{old, young}
			if !olderFirst {
				both = []lb.Request{young, old}
			}
			for _, r := range both {
				a.Settle(r, addrs("192.0.2.3"))
			}
			name := fmt.Sprintf("older %d, younger %d, the older one first: %t", test.older, test.younger, olderFirst)
			if got := a.held[addr("192.0.2.3")].req.Service.Name; got != test.winner {
				t.Errorf("%s: the %s one has it", name, got)
			}
			contests := a.Contests()
			if (len(contests) == 1) != test.told || test.told && contests[0].Winner.Name != test.winner {
				t.Errorf("%s: told %v", name, contests)
			}
		}
	}
}

// A tenant's word stays one, whatever else the tenant changes on the Service: who can prove to
// have the address gets it.
func TestChangesProveNothing(t *testing.T) {
	word := addr("192.0.2.3")
	for name, change := range map[string]func(*lb.Request){
		"nothing":                   func(*lb.Request) {},
		"a port":                    func(r *lb.Request) { r.Ports = []lb.Port{{Protocol: "TCP", Number: 1}} },
		"a sharing key":             func(r *lb.Request) { r.ShareKey = "k" },
		"the age":                   func(r *lb.Request) { r.Created = r.Created.Add(-time.Hour) },
		"a pool that is full":       func(r *lb.Request) { r.Pool = "full" },
		"an address that is in use": func(r *lb.Request) { r.Addresses = addrs("198.51.100.1") },
		"a family that is not there": func(r *lb.Request) {
			r.Families, r.Policy = lb.Families[:], lb.RequireDualStack
		},
		"two addresses, one in use": func(r *lb.Request) {
			r.Families, r.Policy, r.Addresses = lb.Families[:], lb.PreferDualStack, addrs("192.0.2.2 2001:db8::1")
		},
		"what nobody understands": func(r *lb.Request) {
			reason := lb.InvalidRequest.With("It is wrong")
			r.Invalid = &reason
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := New()
			a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30"), poolOf("full", "198.51.100.1"), poolOf("six", "2001:db8::1")})
			full, six := requestOf("full", 1), requestOf("six", 1)
			full.Pool, six.Pool, six.Families = "full", "six", lb.Families[1:]
			a.Settle(full, nil)
			a.Settle(six, nil)
			tenant, owner := requestOf("tenant", 2), requestOf("owner", 3)
			tenant.Evidence = lb.Asserted
			a.Settle(tenant, []netip.Addr{word})
			change(&tenant)
			for range 2 {
				if v, _ := a.Settle(tenant, []netip.Addr{word}); len(v.Addresses) != 1 || v.Addresses[0] != word {
					t.Fatalf("the tenant has %v: %s", v.Addresses, v.Reason)
				}
			}
			a.Settle(owner, []netip.Addr{word})
			wantVerdict(t, a, "owner", word.String(), lb.Ready)
		})
	}
}

// Of two tenants' words, the first one counts, be the other Service older.
func TestWordAgainstWord(t *testing.T) {
	for _, first := range []string{"older", "younger"} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
		both := []lb.Request{requestOf("older", 1), requestOf("younger", 2)}
		if first == "younger" {
			both[0], both[1] = both[1], both[0]
		}
		for _, r := range both {
			r.Evidence = lb.Asserted
			a.Settle(r, addrs("192.0.2.3"))
		}
		wantVerdict(t, a, first, "192.0.2.3", lb.Ready)
	}
}

// Evidence that gets better counts, and so does a note that is written again. Evidence that gets
// worse does not.
func TestEvidenceIsRenewed(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	for name, test := range map[string]struct {
		then, now         lb.Evidence
		noted, notedAgain time.Time
		rival             lb.Evidence
		rivalNoted        time.Time
		rivalAge          int
		keeps             bool
	}{
		"a tenant's word that is proven since": {then: lb.Asserted, now: lb.Proven, rival: lb.Proven, rivalAge: 9, keeps: true},
		"proof that cannot be read any more":   {then: lb.Proven, now: lb.Asserted, rival: lb.Reported, rivalAge: 1, keeps: true},
		"a note that is written again":         {noted: at(1), notedAgain: at(3), rivalNoted: at(2), rivalAge: 1, keeps: true},
		"a note that is put back":              {noted: at(1), notedAgain: at(1), rivalNoted: at(2), rivalAge: 9, keeps: false},
	} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30")})
		r := requestOf("a", 5)
		r.Evidence, r.Noted = test.then, test.noted
		a.Settle(r, addrs("192.0.2.3"))
		r.Evidence, r.Noted = test.now, test.notedAgain
		a.Settle(r, addrs("192.0.2.3"))
		rival := requestOf("rival", test.rivalAge)
		rival.Evidence, rival.Noted = test.rival, test.rivalNoted
		a.Settle(rival, addrs("192.0.2.3"))
		if keeps := a.held[addr("192.0.2.3")].req.Service == r.Service; keeps != test.keeps {
			t.Errorf("%s: it keeps the address: %t", name, keeps)
		}
	}
}
