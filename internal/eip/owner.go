package eip

import (
	"cmp"
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
	for _, o := range r.object.Status.Owners {
		if v.stays(o, r) && !slices.Contains(out, o) {
			out = append(out, o)
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
	var out []types.NamespacedName
	for _, b := range r.claims {
		if b.lost[r] == nil && r.fip == "" && !r.ending() && (b.wanted == r || v.Service(b.Service.UID).EIp == r.object.Name) {
			out = append(out, b.Service.Key)
		}
	}
	for _, row := range r.rows {
		if !slices.Contains(out, row.Service) {
			out = append(out, row.Service)
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// stays says whether an entry that is there is somebody else's. The format of kube-dc's
// own entries is not public: a Service may be named by its name, with its namespace, or by
// its UID. One that is not ours counts while it publishes the address.
func (v *View) stays(o api.Owner, r *record) bool {
	if !strings.EqualFold(o.Type, ownerService) {
		return true
	}
	name := strings.TrimPrefix(o.OwnerRef, v.Namespace+"/")
	for living, uid := range v.Names {
		if living == name || string(uid) == o.OwnerRef {
			_, ours := v.bounds[uid]
			return !ours && slices.ContainsFunc(v.Published[uid], func(a netip.Addr) bool { return slices.Contains(r.known, a) })
		}
	}
	return false
}

// blockers are who keeps an EIp from being deleted, as a person would name them.
func (v *View) blockers(r *record) []string {
	var out []string
	if r.fip != "" {
		out = append(out, ownerFIp+" "+r.fip)
	}
	for _, o := range v.owners(r) {
		if strings.EqualFold(o.Type, ownerFIp) && !v.fipLives(o.OwnerRef) {
			continue
		}
		if text := strings.TrimSpace(o.Type + " " + o.OwnerRef); !slices.Contains(out, text) {
			out = append(out, text)
		}
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
