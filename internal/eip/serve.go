package eip

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/lb"
)

// EIp returns what becomes of an EIp of the namespace and of the OvnEips that were made for
// it, and when to look again; 0: when something has changed. The EIp may be gone.
func (v *View) EIp(name string) (lb.Plan, time.Duration) {
	steps, wait := v.strays(name)
	r := v.eips[name]
	if r == nil || len(steps) > 0 { // it may ask for the address of a stray
		return plan(steps), wait
	}
	p, later := v.serve(r)
	return p, sooner(wait, later)
}

func (v *View) serve(r *record) (lb.Plan, time.Duration) {
	if steps, wait := v.release(r); len(steps) > 0 || wait > 0 {
		return plan(steps), wait
	}
	switch {
	case !v.Serves:
		return v.leave(r), 0
	case r.object.DeletionTimestamp != nil:
		return v.end(r), 0
	}
	if steps := v.sign(r); len(steps) > 0 {
		return plan(steps), 0
	}
	steps, wait := v.allocate(r)
	changed, later := v.report(r)
	return plan(append(steps, changed...)), sooner(wait, later)
}

// sign puts our finalizer on an EIp: it must be there before anything is made for it. One
// that kube-dc's manager made for a Service also gets our label, so that it stays the
// Service's whatever the Service publishes.
func (v *View) sign(r *record) []lb.Step {
	metadata, changes := map[string]any{}, []lb.Change(nil)
	if !slices.Contains(r.object.Finalizers, Finalizer) {
		metadata["finalizers"] = append(slices.Clone(r.object.Finalizers), Finalizer)
		changes = append(changes, lb.Change{Field: "finalizers", From: "none", To: Finalizer})
	}
	for _, b := range r.claims {
		if _, labelled := r.object.Labels[LabelService]; !labelled && b.wanted == r && b.Wish.EIp == "" && looksAutomatic(r.object.Name, b.Service.Key.Name) {
			metadata["labels"] = map[string]any{LabelService: string(b.Service.UID)}
			changes = append(changes, lb.Change{Field: LabelService, From: "none", To: string(b.Service.UID)})
			break
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return []lb.Step{patch("EIp", r.object, map[string]any{"metadata": metadata}, false, changes...)}
}

func plan(steps []lb.Step) lb.Plan { return lb.Plan{Steps: steps} }

// release deletes an automatic EIp that no Service asks for or has.
func (v *View) release(r *record) (steps []lb.Step, wait time.Duration) {
	e := r.object
	_, ours := e.Labels[LabelService]
	automatic := ours || v.Serves && e.Status.DeleteReleased
	if !automatic || e.DeletionTimestamp != nil || len(r.claims) > 0 || len(v.blockers(r)) > 0 || v.RowsUnknown || v.Place == nil {
		return nil, 0
	}
	// The Service may have been created a moment ago, by the same who made the EIp.
	if left := v.Patience - v.Now.Sub(e.CreationTimestamp.Time); left > 0 && len(e.Status.Owners) == 0 {
		return nil, left
	}
	return []lb.Step{remove("EIp", e, "no Service uses it", lb.ImpactNone)}, 0
}

// end lets an EIp go that is being deleted: once nobody uses its address, its OvnEip, and
// then our finalizer. If somebody else serves EIps, an OvnEip without our label is theirs.
func (v *View) end(r *record) lb.Plan {
	e, o := r.object, r.ovn
	if !slices.Contains(e.Finalizers, Finalizer) {
		return lb.Plan{}
	}
	if len(v.blockers(r)) > 0 || v.RowsUnknown {
		if !v.Serves {
			return lb.Plan{} // its status is somebody else's
		}
		steps, _ := v.report(r)
		return plan(steps)
	}
	ours := o != nil && (v.Serves || o.Labels[LabelUID] == string(e.UID))
	if ours && e.Spec.ChildRef == "" && o.DeletionTimestamp == nil && !v.gateway(o) {
		return plan([]lb.Step{remove("OvnEip", o, "its EIp is deleted", lb.ImpactNone)})
	}
	return v.unmark(e)
}

// leave lets an EIp go that was served here, and that somebody else serves now. One that
// was being deleted goes as it would have.
func (v *View) leave(r *record) lb.Plan {
	switch e := r.object; {
	case !slices.Contains(e.Finalizers, Finalizer):
		return lb.Plan{}
	case e.DeletionTimestamp != nil:
		return v.end(r)
	default:
		return v.unmark(e)
	}
}

// unmark takes our finalizer from an EIp.
func (v *View) unmark(e *api.EIp) lb.Plan {
	list := slices.DeleteFunc(slices.Clone(e.Finalizers), func(f string) bool { return f == Finalizer })
	return plan([]lb.Step{patch("EIp", e, map[string]any{"metadata": map[string]any{"finalizers": list}}, false, lb.Change{Field: "finalizers", From: Finalizer, To: "none"})})
}

// allocate makes the OvnEip of an EIp.
func (v *View) allocate(r *record) (steps []lb.Step, wait time.Duration) {
	e := r.object
	switch o := r.ovn; {
	case e.Spec.ChildRef != "" || r.refused:
		return nil, 0
	case o == nil && v.OvnEips[OvnEipName(e)] != nil:
		return nil, 0 // of somebody else
	case o == nil:
		return v.ask(r), 0
	case o.DeletionTimestamp != nil:
		return nil, 0 // made again when it is gone
	case o.Labels[LabelUID] == "": // made by who served the EIp before
		return []lb.Step{patch("OvnEip", o, map[string]any{"metadata": map[string]any{"labels": v.labels(r)}}, false, lb.Change{Field: LabelUID, From: "none", To: string(e.UID)})}, 0
	case !o.Status.Ready:
		return v.insist(r)
	}
	return nil, 0
}

func (v *View) labels(r *record) map[string]string {
	out := map[string]string{LabelNamespace: r.object.Namespace, LabelUID: string(r.object.UID)}
	if len(r.object.Name) <= maxName {
		out[LabelName] = r.object.Name
	}
	return out
}

// ask creates the OvnEip, and before that, where it is needed, the router's port.
func (v *View) ask(r *record) []lb.Step {
	c := v.subnetFor(r.object)
	switch {
	case c.subnet == "":
		return nil
	case c.attach:
		return v.attach(c.subnet)
	}
	o := &kubeovn.OvnEip{
		ObjectMeta: metav1.ObjectMeta{Name: OvnEipName(r.object), Labels: v.labels(r)},
		Spec:       kubeovn.OvnEipSpec{ExternalSubnet: c.subnet, Type: kubeovn.TypeRouterPort, V4IP: wanted(r)},
	}
	if o.Spec.V4IP != "" {
		o.Annotations = map[string]string{AnnotationAddress: o.Spec.V4IP}
	}
	return []lb.Step{create("OvnEip", o, "")}
}

// wanted is the address that kube-ovn is asked for: the requested one; else the one that
// the EIp had, whose OvnEip somebody has deleted, unless another OvnEip has it; else any.
func wanted(r *record) string {
	if fixed := parseRequest(r.object.Annotations[AnnotationAddress]); len(fixed) > 0 {
		return request(fixed)
	}
	if a, err := lb.ParseAddr(r.object.Status.IPAddress); err == nil && slices.Contains(r.known, a) {
		return a.String()
	}
	return ""
}

// insist waits for kube-ovn. An OvnEip that asks for an address which nobody wants any
// more is deleted, so that the next one asks for any: see forgets.
func (v *View) insist(r *record) ([]lb.Step, time.Duration) {
	if asked := r.ovn.Annotations[AnnotationAddress]; asked != "" && wanted(r) != asked {
		return []lb.Step{remove("OvnEip", r.ovn, fmt.Sprintf("kube-ovn does not give it %s", asked), lb.ImpactNone)}, 0
	}
	return nil, max(0, v.Patience-v.Now.Sub(r.ovn.CreationTimestamp.Time))
}

// forgets says whether the EIp gives up the address that it had: kube-ovn has been asked
// for it again, and has not given it.
func (v *View) forgets(r *record) bool {
	return r.ovn != nil && r.object.Spec.ChildRef == "" && !r.ovn.Status.Ready && r.ovn.DeletionTimestamp == nil &&
		r.ovn.Annotations[AnnotationAddress] != "" && r.ovn.Annotations[AnnotationAddress] == wanted(r) &&
		len(parseRequest(r.object.Annotations[AnnotationAddress])) == 0 &&
		v.Now.Sub(r.ovn.CreationTimestamp.Time) >= v.Patience
}
