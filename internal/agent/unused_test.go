package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/lb"
)

// The Agent object says which advertisements contradict older ones for an address that this
// node announces, and which peers cannot be used for reasons that the controller cannot see;
// and it no longer does when they are corrected.
func TestRefusedRoutesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := plainRoute(func(r *lb.Route) { r.Name, r.Created, r.LocalPref = "gold", time.Unix(1, 0), 200 })
		younger := plainRoute(func(r *lb.Route) {
			r.Name, r.Created, r.LocalPref = "tin", time.Unix(2, 0), 100
			r.ServiceSelectors = []labels.Selector{labels.Everything()}
		})
		crowd := plainRoute(func(r *lb.Route) {
			r.Name, r.Created, r.LocalPref = "crowd", time.Unix(3, 0), 200
			for i := range lb.MaxCommunities {
				c, err := lb.ParseCommunity(fmt.Sprintf("64500:%d", i))
				if err != nil {
					t.Fatal(err)
				}
				r.Communities = append(r.Communities, c)
			}
		})
		one, err := lb.ParseCommunity("64501:1")
		if err != nil {
			t.Fatal(err)
		}
		older.Communities = []lb.Community{one}
		r, _ := startRouted(t, newCluster(), older)
		said := func() string {
			after(5 * time.Second)
			r.reporter.mu.Lock()
			defer r.reporter.mu.Unlock()
			var out []string
			for _, f := range r.reporter.status.Refused {
				out = append(out, f.Kind+" "+f.Name+" "+f.Reason)
			}
			return strings.Join(out, ", ")
		}
		if got := said(); got != "" {
			t.Errorf("nothing is wrong, but: %s", got)
		}
		pools := routedPools([]lb.Route{older, younger, crowd}, lb.Peer{Name: "tor"})
		pools.Configurations = []sources.Configuration{{Problems: []sources.Problem{
			{Kind: "BGPPeer", Name: "locked", Reason: lb.PeerUnusable.With("Secret")}, {Kind: "BGPPeer", Name: "well", Reason: lb.PeerReady.With()},
			{Kind: "BGPAdvertisement", Name: "old", Reason: lb.PoolInvalid.With("x")}, {Kind: "IPAddressPool", Name: "lan", Reason: lb.PoolInvalid.With("x")}}}}
		r.poolsAre(pools)
		if got := said(); got != "BGPAdvertisement crowd TooManyCommunities, BGPAdvertisement old PoolInvalid, BGPAdvertisement tin AdvertisementConflict, BGPPeer locked PeerUnusable" {
			t.Errorf("refused are %s", got)
		}
		r.poolsAre(routedPools([]lb.Route{older}, lb.Peer{Name: "tor"}))
		if got := said(); got != "" {
			t.Errorf("nothing is wrong any more, but: %s", got)
		}
	})
}
