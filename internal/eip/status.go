package eip

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Types of the conditions of an EIp. ConditionInUse is there only while a deletion waits.
const (
	ConditionReady = "Ready"
	ConditionInUse = "InUse"
)

// report writes what is so into the status of an EIp. That kube-ovn takes a moment is not
// worth a write: wait is when it will be.
func (v *View) report(r *record) (steps []lb.Step, wait time.Duration) {
	e := r.object
	if young := v.Patience - v.Now.Sub(e.CreationTimestamp.Time); len(r.addresses) == 0 && !r.refused && young > 0 && e.DeletionTimestamp == nil && reflect.DeepEqual(e.Status, api.EIpStatus{}) {
		return nil, young
	}
	want := v.status(r)
	if reflect.DeepEqual(normal(want), normal(e.Status)) {
		return nil, 0
	}
	status := map[string]any{
		"ipAddress": want.IPAddress, "ovnEIpRef": want.OvnEIpRef, "ready": want.Ready, "ownershipType": want.OwnershipType,
		"owners": list(want.Owners), "deleteReleased": want.DeleteReleased, "conditions": list(want.Conditions),
	}
	return []lb.Step{patch("EIp", e, map[string]any{"status": status}, true, changes(e.Status, want)...)}, 0
}

// list is a list that is written also if it is empty: a merge patch without it would keep
// what is there.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

func changes(from, to api.EIpStatus) (out []lb.Change) {
	for _, c := range []lb.Change{
		{Field: "ipAddress", From: from.IPAddress, To: to.IPAddress},
		{Field: "ready", From: fmt.Sprint(from.Ready), To: fmt.Sprint(to.Ready)},
		{Field: "ownershipType", From: string(from.OwnershipType), To: string(to.OwnershipType)},
		{Field: "owners", From: fmt.Sprint(from.Owners), To: fmt.Sprint(to.Owners)},
	} {
		if c.From != c.To {
			out = append(out, c)
		}
	}
	return out
}

// normal is a status without what makes no difference.
func normal(s api.EIpStatus) api.EIpStatus {
	s = *s.DeepCopy()
	if len(s.Owners) == 0 {
		s.Owners = nil
	}
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	if len(s.Conditions) == 0 {
		s.Conditions = nil
	}
	return s
}

func (v *View) status(r *record) api.EIpStatus {
	e := r.object
	_, ours := e.Labels[LabelService]
	out := *e.Status.DeepCopy()
	out.Owners = v.owners(r)
	out.OwnershipType = ownership(out.Owners)
	out.DeleteReleased = out.DeleteReleased || ours
	out.Ready = len(r.addresses) > 0
	out.OvnEIpRef = ""
	if r.ovn != nil {
		out.OvnEIpRef = r.ovn.Name
	}
	switch {
	case out.Ready:
		out.IPAddress = r.addresses[0].String()
		v.condition(&out, ConditionReady, Reasons.With(EIpReady, out.OvnEIpRef, prose.Addrs(r.addresses)))
	case r.refused:
		out.IPAddress = ""
		v.condition(&out, ConditionReady, Reasons.With(EIpRefused, e.Spec.ChildRef, v.Namespace))
	default:
		if v.forgets(r) || e.Spec.ChildRef != "" {
			out.IPAddress = ""
		}
		v.condition(&out, ConditionReady, Reasons.With(EIpPending, v.why(r)))
	}
	meta.RemoveStatusCondition(&out.Conditions, ConditionInUse)
	if blockers := v.blockers(r); e.DeletionTimestamp != nil && len(blockers) > 0 {
		v.condition(&out, ConditionInUse, Reasons.With(EIpInUse, prose.Few(blockers)))
	}
	return out
}

func (v *View) condition(s *api.EIpStatus, kind string, r lb.Reason) {
	is := metav1.ConditionFalse
	if r.Ready() || kind == ConditionInUse {
		is = metav1.ConditionTrue
	}
	// A second has no fraction on the API server: it must be equal when it is read back.
	now := metav1.NewTime(v.Now.Truncate(time.Second))
	had := meta.FindStatusCondition(s.Conditions, kind)
	next := metav1.Condition{Type: kind, Status: is, Reason: string(r.Code), Message: r.Text, LastTransitionTime: now}
	if had != nil {
		next.ObservedGeneration = had.ObservedGeneration
	}
	s.Conditions = slices.Clone(s.Conditions)
	meta.SetStatusCondition(&s.Conditions, next)
}

// why an EIp has no address.
func (v *View) why(r *record) string {
	e := r.object
	switch o := r.ovn; {
	case !v.Serves && o == nil && v.OvnEips[e.Status.OvnEIpRef] != nil:
		return fmt.Sprintf("its status names OvnEip %s, which belongs to somebody else", e.Status.OvnEIpRef)
	case !v.Serves:
		return "kube-dc's manager has not given it one"
	case r.refused:
		return fmt.Sprintf("OvnEip %s does not belong to namespace %s", e.Spec.ChildRef, v.Namespace)
	case o == nil && e.Spec.ChildRef != "":
		return fmt.Sprintf("OvnEip %s does not exist", e.Spec.ChildRef)
	case o == nil && v.OvnEips[OvnEipName(e)] != nil:
		return fmt.Sprintf("OvnEip %s belongs to somebody else", OvnEipName(e))
	case o == nil:
		switch c := v.subnetFor(e); {
		case c.subnet == "":
			return c.why
		case c.attach:
			return fmt.Sprintf("router %s has no port in subnet %s yet", v.Place.Router, c.subnet)
		}
		return fmt.Sprintf("OvnEip %s does not exist yet", OvnEipName(e))
	case o.DeletionTimestamp != nil:
		return fmt.Sprintf("OvnEip %s is being deleted", o.Name)
	case o.Status.Ready && len(addressesOf(o)) > 0:
		a := addressesOf(o)[0]
		return fmt.Sprintf("kube-ovn has given %s to OvnEip %s, and before that to OvnEip %s", a, o.Name, v.holder[a])
	default:
		text := fmt.Sprintf("kube-ovn has not allocated one for OvnEip %s", o.Name)
		if asked := o.Annotations[AnnotationAddress]; asked != "" {
			text += ", which requests " + asked
		}
		return text + "; " + v.freeText(o.Spec.ExternalSubnet)
	}
}
