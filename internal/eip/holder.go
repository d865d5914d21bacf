package eip

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
)

// ovnEipOf is the OvnEip that has the address of an EIp. One that a tenant names must be
// the gateway of the project, or be shared by an administrator. What the status names was
// written by who served the EIp, but it may have been named by childRef then, which tenants
// can remove: neither a gateway nor what is shared becomes the EIp's own.
func (v *View) ovnEipOf(e *api.EIp) (o *kubeovn.OvnEip, refused bool) {
	if name := e.Spec.ChildRef; name != "" {
		o := v.OvnEips[name]
		if o == nil {
			return nil, false
		}
		shared := o.Labels[LabelNamespace] == e.Namespace && o.Labels[LabelUID] == "" && !v.gateway(o)
		if !v.ownGateway(o) && !shared {
			return nil, true
		}
		return o, false
	}
	if o := v.OvnEips[OvnEipName(e)]; o != nil && o.Labels[LabelUID] == string(e.UID) {
		return o, false
	}
	for _, o := range v.madeFor(e.Name) { // its status may have been lost
		if o.Labels[LabelUID] == string(e.UID) {
			return o, false
		}
	}
	if o := v.OvnEips[e.Status.OvnEIpRef]; o != nil && !v.gateway(o) && o.Labels[LabelNamespace] == "" && v.assigned(o, e) {
		return o, false
	}
	return nil, false
}

// assigned says whether an OvnEip that the status of an EIp names can be the EIp's. The
// status alone proves little if tenants can write it: a gateway must be the project's own,
// the labels must not name somebody else, and if there are none, the oldest of the EIps in
// several namespaces has it.
func (v *View) assigned(o *kubeovn.OvnEip, e *api.EIp) bool {
	switch uid, namespace := o.Labels[LabelUID], o.Labels[LabelNamespace]; {
	case v.gateway(o):
		return v.ownGateway(o)
	case uid != "":
		return uid == string(e.UID)
	case namespace != "":
		return namespace == e.Namespace
	}
	return !slices.ContainsFunc(v.Elsewhere[o.Name], func(other *api.EIp) bool {
		return (!v.Serves || other.Spec.ChildRef == "") && olderEIp(other, e) < 0
	})
}

func olderEIp(a, b *api.EIp) int {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}

// ownGateway says whether an OvnEip is a port of the project's own router.
func (v *View) ownGateway(o *kubeovn.OvnEip) bool {
	return v.Place != nil && v.Place.Vpc != "" && o.Name == v.Place.Gateway(o.Spec.ExternalSubnet)
}

// gateway says whether an OvnEip is the port of a router: kube-ovn removes the port with
// it. The project's own one counts even if its Vpc cannot be read.
func (v *View) gateway(o *kubeovn.OvnEip) bool {
	vpc, ok := strings.CutSuffix(o.Name, "-"+o.Spec.ExternalSubnet)
	return ok && v.Vpcs[vpc] != nil || v.ownGateway(o)
}

// held are the addresses of an OvnEip that no older one has.
func (v *View) held(o *kubeovn.OvnEip) []netip.Addr {
	return slices.DeleteFunc(addressesOf(o), func(a netip.Addr) bool { return v.holder[a] != o.Name })
}

func olderOvnEip(a, b *kubeovn.OvnEip) bool {
	return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

func addressesOf(o *kubeovn.OvnEip) (out []netip.Addr) {
	for _, text := range []string{o.Status.V4IP, o.Status.V6IP} {
		for _, a := range parseRequest(text) {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
