package sources

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// labelServiceProxy names the program that forwards a Service; kube-proxy ignores those that
// have it.
const labelServiceProxy = "service.kubernetes.io/service-proxy-name"

// Service is what the agent must know of one Service.
type Service struct {
	Request   lb.Request
	Published []netip.Addr // what its status says
	Local     bool         // only nodes with an endpoint may have its addresses
	// HealthPort is where kube-proxy says whether it has rules for pods on this node, if Local;
	// 0 if nowhere.
	HealthPort uint16
	// OtherProxy: kube-proxy leaves the Service to another program.
	OtherProxy bool
	// Pool is the one that the addresses are from, as was written down with them, if
	// that counts more than which pool has them now. It may be gone.
	Pool lb.PoolKey
	// Former is what the controller remembers of that pool if it is gone, or nil.
	Former *lb.FormerPool
	// Interface is the one that is named for the Service, or "". Named says that an
	// administrator names it, so that it is used even if it is excluded.
	Interface string
	Named     bool
	// Placed says that the controller chooses the nodes that may carry the addresses:
	// Carriers, which it writes into the status, where tenants cannot.
	Placed   bool
	Carriers lb.Carriers
	// Routed: where its pool does not say, the Service is announced by BGP, and only so.
	Routed bool
	// Lease is what the Service wants from DHCP servers; nil if nothing.
	Lease *lb.LeaseRequest
}

// Service returns s as the agent sees it, or nil if agents do not announce it.
func (r *Reader) Service(s *corev1.Service) *Service {
	class := r.class(s)
	if class == nil {
		return nil
	}
	out := r.read(s, class.Pools)
	if out.Placed = class.Backend.Places(); out.Placed {
		out.Carriers, out.Interface = kubeapi.Service(s).Carriers, r.o.Config.PlacedInterface(class.Backend)
	}
	return out
}

// read reads a Service whose class may use the pools of dialects.
func (r *Reader) read(s *corev1.Service, dialects []lb.Dialect) *Service {
	value := kubeapi.Service(s)
	theirs, in := &kubevip.Reading{Config: r.config}, compat.Class{Dialects: dialects}
	readings := compat.Readings{
		{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
		{Dialect: metallb.Dialect{}, Reading: &metallb.Reading{}},
		{Dialect: kubevip.Dialect{}, Reading: theirs},
	}
	out := &Service{
		Request:   readings.Request(value, nil, in),
		Published: value.Published(), Pool: notedPool(s),
		Former: value.FormerPool(), Local: value.Local,
	}
	if _, out.OtherProxy = s.Labels[labelServiceProxy]; out.Local && !out.OtherProxy {
		out.HealthPort = uint16(s.Spec.HealthCheckNodePort)
	}
	if !slices.Contains(dialects, kubevip.Name) {
		return out
	}
	out.Routed = r.o.KubeVIPBGP != nil
	out.Interface = cmp.Or(r.config.Interface(s.Namespace), r.o.Interface)
	out.Named = out.Interface != ""
	if !theirs.Honours(in) {
		return out
	}
	if asked := strings.TrimSpace(s.Annotations[kubevip.AnnotationInterface]); asked != "" {
		out.Interface, out.Named = asked, asked == r.o.Interface || slices.Contains(r.config.Interfaces(), asked)
	}
	if value.Says == nil || value.Says.Code != lb.QuotaExceeded {
		out.Lease = r.lease(out, s)
	}
	return out
}

// notedPool returns the pool of MetalLB's kind that the addresses of s are from, as
// was written down with them, if any.
func notedPool(s *corev1.Service) lb.PoolKey {
	for key := range strings.SplitSeq(s.Annotations[native.AnnotationAllocatedFrom], ",") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(key), string(metallb.Name)+"/"); ok {
			return lb.PoolKey{Dialect: metallb.Name, Name: name}
		}
	}
	name := s.Annotations[metallb.AnnotationAllocatedFrom]
	if _, ours := s.Annotations[native.AnnotationAllocatedFrom]; ours || name == "" {
		return lb.PoolKey{}
	}
	return lb.PoolKey{Dialect: metallb.Name, Name: name}
}

// lease returns what a Service wants from DHCP servers: it asks for that, or the
// controller has written so.
func (r *Reader) lease(of *Service, s *corev1.Service) *lb.LeaseRequest {
	w := &lb.LeaseRequest{Request: &of.Request, Interface: of.Interface, NamedBy: "annotation " + kubevip.AnnotationInterface, Pool: lb.PoolKey{Dialect: kubevip.Name, Name: r.config.PoolKey(s.Namespace)}}
	any := false
	for _, f := range of.Request.Families {
		is := func(a netip.Addr) bool { return lb.FamilyOf(a) == f }
		w.Families[f] = of.Request.DHCP[f] && !slices.ContainsFunc(of.Request.Addresses, is)
		any = any || w.Families[f]
		if i := slices.IndexFunc(of.Published, is); i >= 0 && mayBeLeased(s, f) {
			w.Published[f] = of.Published[i]
		}
	}
	if !any {
		return nil
	}
	asked, _ := kubevip.DHCPRequestOf(kubeapi.Service(s), w.Families) // the controller reports what is wrong with it
	w.Hostname, w.MAC, w.Requested = asked.Hostname, asked.MAC, asked.Requested
	return w
}

// mayBeLeased says whether the address of s of family f that is published may be a
// lease: the controller has written so, or it has not written the address.
func mayBeLeased(s *corev1.Service, f lb.Family) bool {
	if slices.Contains(strings.Split(s.Annotations[native.AnnotationDHCP], ","), f.String()) {
		return true
	}
	return kubeapi.Service(s).Says == nil
}
