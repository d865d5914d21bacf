package cloudsigma

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/cloud"
	sim "fairlead.io/sandbox/cloudsigma"
)

// claim is what the three tags of an address are.
func claim(service string, address string) []TagChange {
	return []TagChange{{Name: "cluster:a", Add: []string{address}}, {Name: "service:" + service, Add: []string{address}}, {Name: "managed-by:cloudsigma-ccm", Add: []string{address}}}
}

func unclaim(service string, address string) []TagChange {
	return []TagChange{{Name: "cluster:a", Remove: []string{address}}, {Name: "service:" + service, Remove: []string{address}, DeleteEmpty: true}, {Name: "managed-by:cloudsigma-ccm", Remove: []string{address}}}
}

func tagged(s *sim.Simulator) map[string][]string {
	out := map[string][]string{}
	for _, tag := range s.Tags() {
		out[tag.Name] = s.Tagged(tag.Name)
	}
	return out
}

func TestTags(t *testing.T) {
	for _, form := range []string{"both", "strings", "objects"} {
		s, c := simulated(t, sim.Knobs{TagForm: form})
		server := node(t, s, "node1", "dhcp")
		s.AddTag("managed-by:cloudsigma-ccm", addr3.String(), server)
		for range 2 { // the second time there is nothing to do
			tags, err := c.Tags.Change(t.Context(), claim("web", addr1.String())...)
			if err != nil || len(tags) != 3 {
				t.Fatalf("%s: %+v, %v", form, tags, err)
			}
		}
		if _, err := c.Tags.Change(t.Context(), claim("db", addr2.String())...); err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{
			"cluster:a": {"192.0.2.7", "192.0.2.8"}, "service:web": {"192.0.2.7"}, "service:db": {"192.0.2.8"},
			"managed-by:cloudsigma-ccm": {"192.0.2.7", "192.0.2.8", "192.0.2.9", server},
		}
		if diff := cmp.Diff(want, tagged(s)); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
		for range 2 {
			if _, err := c.Tags.Change(t.Context(), append(unclaim("web", addr1.String()), unclaim("db", addr2.String())...)...); err != nil {
				t.Fatal(err)
			}
		}
		want = map[string][]string{"cluster:a": nil, "managed-by:cloudsigma-ccm": {"192.0.2.9", server}}
		if diff := cmp.Diff(want, tagged(s)); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
}

// The calls of a claim: a list, a write for each tag, a list.
func TestTagCalls(t *testing.T) {
	s, c := simulated(t, sim.Knobs{})
	s.AddTag("cluster:a")
	s.AddTag("managed-by:cloudsigma-ccm")
	if _, err := c.Tags.Change(t.Context(), claim("web", addr1.String())...); err != nil {
		t.Fatal(err)
	}
	want := map[sim.Call]int{{Method: "GET", Kind: sim.Tags}: 2, {Method: "PUT", Kind: sim.Tags}: 2, {Method: "POST", Kind: sim.Tags}: 1}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Error(diff)
	}
}

// Another cluster has written a tag since our last change: the next one, a moment later,
// does not undo that.
func TestAnotherWriterSinceTheLastChange(t *testing.T) {
	s, c := simulated(t, sim.Knobs{})
	tag := s.AddTag("managed-by:cloudsigma-ccm", addr2.String())
	change := TagChange{Name: tag.Name, Add: []string{addr1.String()}}
	if _, err := c.Tags.Change(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if err := s.EditTag(tag.UUID, []string{addr3.String()}, []string{addr2.String()}); err != nil {
		t.Fatal(err)
	}
	change.Add, change.Remove = nil, change.Add
	if _, err := c.Tags.Change(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if got := s.Tagged(tag.Name); !slices.Equal(got, []string{addr3.String()}) {
		t.Errorf("%v have the tag, want %s", got, addr3)
	}
}

// Names are not unique: what is added goes to the lowest UUID, what is removed goes
// from all.
func TestTwoTagsOfAName(t *testing.T) {
	s, c := simulated(t, sim.Knobs{})
	tags := []sim.Tag{s.AddTag("cluster:a", addr1.String()), s.AddTag("cluster:a", addr1.String(), addr2.String()), s.AddTag("cluster:a")}
	slices.SortFunc(tags, func(a, b sim.Tag) int { return map[bool]int{true: -1, false: 1}[a.UUID < b.UUID] })
	if _, err := c.Tags.Change(t.Context(), TagChange{Name: "cluster:a", Add: []string{addr3.String()}, Remove: []string{addr1.String()}}); err != nil {
		t.Fatal(err)
	}
	for _, tag := range s.Tags() {
		if slices.Contains(tag.Resources, addr1.String()) || slices.Contains(tag.Resources, addr3.String()) != (tag.UUID == tags[0].UUID) {
			t.Errorf("%+v", tag)
		}
	}
	if got := s.Tagged("cluster:a"); !slices.Equal(got, []string{"192.0.2.8", "192.0.2.9"}) {
		t.Error(got)
	}
}

// Somebody else writes the same tag between our list and our write, or after it.
func TestAnotherWriter(t *testing.T) {
	s, c := simulated(t, sim.Knobs{})
	tag := s.AddTag("cluster:a")
	// His write comes after ours, and does not have what we added.
	s.Before(http.MethodPut, sim.Tags, tag.UUID, func() {
		s.Before(http.MethodGet, sim.Tags, "", func() { _ = s.EditTag(tag.UUID, []string{addr2.String()}, []string{addr1.String()}) })
	})
	tags, err := c.Tags.Change(t.Context(), TagChange{Name: "cluster:a", Add: []string{addr1.String()}})
	if err != nil || !tags[0].Has(addr1.String()) || !tags[0].Has(addr2.String()) {
		t.Errorf("%+v, %v", tags, err)
	}
	// The tag is deleted before our write.
	s.Before(http.MethodPut, sim.Tags, "", func() { _ = s.Delete(sim.Tags, tag.UUID) })
	if _, err := c.Tags.Change(t.Context(), TagChange{Name: "cluster:a", Add: []string{addr3.String()}}); err != nil || !slices.Equal(s.Tagged("cluster:a"), []string{"192.0.2.9"}) {
		t.Errorf("%v, %v", s.Tagged("cluster:a"), err)
	}
	// He never stops.
	tag = s.AddTag("cluster:b")
	c.Tags.Forget()
	var undo func()
	undo = func() {
		_ = s.EditTag(tag.UUID, nil, []string{addr1.String()})
		s.Before(http.MethodGet, sim.Tags, "", undo)
	}
	undo()
	if _, err := c.Tags.Change(t.Context(), TagChange{Name: "cluster:b", Add: []string{addr1.String()}}); !IsIgnored(err) {
		t.Error(err)
	}
}

// A hundred claims at once need few calls; a bad one among them costs some more, and
// concerns nobody else.
func TestManyClaims(t *testing.T) {
	for bad, most := range map[int]int{-1: 10, 50: 120} {
		synctest.Test(t, func(t *testing.T) {
			s, c := simulated(t, sim.Knobs{})
			s.Fail(sim.Fault{Latency: 500 * time.Millisecond, Times: -1})
			var all sync.WaitGroup
			for i := range 100 {
				addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 7)})
				if i >= 3 && i != bad {
					s.Subscribe(addr)
				}
				all.Go(func() {
					_, err := c.Tags.Change(t.Context(), claim(fmt.Sprint("web", i), addr.String())...)
					if cloud.IsInvalid(err) != (i == bad) || i != bad && err != nil {
						t.Errorf("%d: %v", i, err)
					}
				})
			}
			all.Wait()
			if n := len(s.Log()); n > most {
				t.Errorf("%d calls", n)
			}
			for i := range 100 {
				want := 1
				if i == bad {
					want = 0
				}
				if got := s.Tagged(fmt.Sprint("service:web", i)); len(got) != want {
					t.Errorf("%d: %v", i, got)
				}
			}
		})
	}
}

// Each call of a claim × each fault: what is returned is what is there, and nothing
// is there twice.
func TestTagFaults(t *testing.T) {
	for _, fault := range []sim.Fault{
		{Status: 503}, {Status: 500}, {Status: 502, Body: "<html>Bad Gateway</html>"}, {Cut: true}, {Lose: true}, {Status: 403}, {Status: 400},
	} {
		for call := range 4 {
			t.Run(fmt.Sprint(fault.String(), " in call ", call), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, c := simulated(t, sim.Knobs{})
					s.AddTag("cluster:a", addr2.String())
					fault.Skip = call
					s.Fail(fault)
					_, err := c.Tags.Change(t.Context(), claim("web", addr1.String())...)
					if err == nil && len(s.Tagged("service:web")) != 1 {
						t.Error("it was not done")
					}
					if survived := fault.Status == 503 || fault.Lose; survived && err != nil {
						t.Errorf("not survived: %v", err)
					}
					if _, err := c.Tags.Change(t.Context(), claim("web", addr1.String())...); err != nil {
						t.Error(err)
					}
					want := map[string][]string{"cluster:a": {"192.0.2.7", "192.0.2.8"}, "service:web": {"192.0.2.7"}, "managed-by:cloudsigma-ccm": {"192.0.2.7"}}
					if diff := cmp.Diff(want, tagged(s)); diff != "" || len(s.Tags()) != 3 {
						t.Error(diff, s.Tags())
					}
				})
			})
		}
	}
}
