package eip

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
)

// The types of owners that are known here.
const (
	ownerService = "Service"
	ownerFIp     = "FIp"
)

// owners are who uses an EIp: Services that have it or still have it in the database, and
// what others have written there. Of these, entries for Services go when the Service does.
func (v *View) owners(r *record) []api.Owner {
	var out []api.Owner
	for _, s := range v.users(r) {
		out = append(out, api.Owner{Type: ownerService, OwnerRef: s.String()})
	}
	listed := map[api.Owner]bool{}
	for _, o := range out {
		listed[o] = true
	}
	for _, o := range r.object.Status.Owners {
		if !listed[o] && v.stays(o, r) {
			out, listed[o] = append(out, o), true
		}
	}
	slices.SortFunc(out, func(a, b api.Owner) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.OwnerRef, b.OwnerRef))
	})
	return out
}

// users are the Services that have the EIp, or will have it, and those whose rows have its
// address.
func (v *View) users(r *record) []types.NamespacedName {
	users := map[types.NamespacedName]struct{}{}
	for _, b := range r.claims {
		if b.lost[r] == nil && r.fip == "" && !r.ending() && (b.wanted == r || v.Service(b.Service.UID).EIp == r.object.Name) {
			users[b.Service.Key] = struct{}{}
		}
	}
	for _, row := range r.rows {
		users[row.Service] = struct{}{}
	}
	return slices.SortedFunc(maps.Keys(users), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
}

// stays says whether an entry that is there is somebody else's. The format of kube-dc's
// own entries is not public: a Service may be named by its name, with its namespace, or by
// its UID. One that is not ours counts while it publishes the address.
func (v *View) stays(o api.Owner, r *record) bool {
	if !strings.EqualFold(o.Type, ownerService) {
		return true
	}
	uid, lives := v.Names[strings.TrimPrefix(o.OwnerRef, v.Namespace+"/")]
	if !lives {
		uid = types.UID(o.OwnerRef)
		_, lives = v.living[uid]
	}
	return lives && v.bounds[uid] == nil && slices.ContainsFunc(v.Published[uid], func(a netip.Addr) bool { return slices.Contains(r.known, a) })
}

// blockers are who keeps an EIp from being deleted, as a person would name them.
func (v *View) blockers(r *record) []string {
	var out []string
	listed := map[string]bool{}
	add := func(text string) {
		if !listed[text] {
			out, listed[text] = append(out, text), true
		}
	}
	if r.fip != "" {
		add(ownerFIp + " " + r.fip)
	}
	for _, o := range v.owners(r) {
		if strings.EqualFold(o.Type, ownerFIp) && !v.fipLives(o.OwnerRef) {
			continue
		}
		add(strings.TrimSpace(o.Type + " " + o.OwnerRef))
	}
	return out
}

func (v *View) fipLives(ref string) bool {
	return slices.ContainsFunc(v.FIps, func(f *api.FIp) bool {
		return f.Name == strings.TrimPrefix(ref, v.Namespace+"/") || string(f.UID) == ref
	})
}

func ownership(owners []api.Owner) api.Ownership {
	switch len(owners) {
	case 0:
		return api.Released
	case 1:
		return api.Exclusive
	}
	return api.Shared
}
