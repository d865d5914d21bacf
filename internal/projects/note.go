package projects

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/kubeapi"
)

// note puts an object into the book, and queues the EIps that the change concerns; p.mu is
// held. before may be an older version than the one in the book.
func (p *Projects) note(before, after client.Object) wakes {
	o := either(before, after)
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	switch o.(type) {
	case *corev1.Service:
		return p.noteService(key, as[corev1.Service](after))
	case *corev1.Namespace:
		return p.noteNamespace(before, after)
	case *api.EIp:
		return p.noteEIp(key, before, as[api.EIp](after))
	case *api.FIp:
		return p.noteFIp(key, before, after)
	case *kubeovn.OvnEip:
		return p.noteOvnEip(key.Name, as[kubeovn.OvnEip](after))
	case *kubeovn.OvnDnatRule:
		for _, ovnEip := range p.book.Rule(key.Name, as[kubeovn.OvnDnatRule](after)) {
			p.queueAll(p.book.EIpsFor(ovnEip))
		}
		return wakes{}
	case *kubeovn.Vpc:
		p.book.Vpc(key.Name, as[kubeovn.Vpc](after))
	case *kubeovn.Subnet:
		p.book.Subnet(key.Name, as[kubeovn.Subnet](after))
	case *api.Project:
		p.book.Project(key, as[api.Project](after))
	}
	return p.noteNetwork(before, after)
}

// as is an object of a kind; nil if there is none.
func as[T any, P interface {
	*T
	client.Object
}](o client.Object) *T {
	if o == nil {
		return nil
	}
	return (*T)(o.(P))
}

// noteService looks again at the EIps that a Service asks for or has, before and after.
func (p *Projects) noteService(key types.NamespacedName, after *corev1.Service) wakes {
	concerned := p.book.EIpsOf(key)
	if after == nil {
		p.gone.add(p.book.UID(key), time.Now())
		p.book.Service(key, "", nil)
		delete(p.bound, key)
	} else {
		value := kubeapi.Service(after)
		p.gone.remove(value.UID) // restored from a backup
		p.book.Service(key, value.UID, p.claimOf(value), value.Published()...)
	}
	p.queueNames(key.Namespace, append(concerned, p.book.EIpsOf(key)...))
	return wakes{services: p.affected(key)}
}

func (p *Projects) queueNames(namespace string, names []string) {
	for _, name := range names {
		p.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

func (p *Projects) noteEIp(key types.NamespacedName, before client.Object, after *api.EIp) wakes {
	var services []types.NamespacedName
	if before == nil || after == nil { // they may have waited for it, or have to do without
		services = p.book.ServicesOf(key)
	}
	p.queueSharers(p.book.GetEIp(key), after)
	p.book.EIp(key, after)
	p.queue.Add(key)
	if was, ok := before.(*api.EIp); after != nil && (!ok || was.Status.IPAddress != after.Status.IPAddress) {
		p.accompanyAgain(p.book.ServicesOf(key))
	}
	if before == nil || after == nil {
		services = p.affected(append(services, p.book.ServicesOf(key)...)...)
	}
	return wakes{services: services}
}

// queueSharers looks again at EIps that name the OvnEip in their status which an EIp names
// there, or does not name any more: one of them may have it now.
func (p *Projects) queueSharers(before, after *api.EIp) {
	refs := [2]string{}
	for i, e := range []*api.EIp{before, after} {
		if e != nil {
			refs[i] = e.Status.OvnEIpRef
		}
	}
	if refs[0] == refs[1] {
		return
	}
	for _, name := range refs {
		if name != "" {
			p.queueAll(p.book.EIpsFor(name))
		}
	}
}

func (p *Projects) noteFIp(key types.NamespacedName, before, after client.Object) wakes {
	p.book.FIp(key, as[api.FIp](after))
	for _, o := range []client.Object{before, after} {
		if f := as[api.FIp](o); f != nil {
			p.queueNames(key.Namespace, slices.DeleteFunc([]string{f.Spec.EIp, f.Status.EIp}, func(name string) bool { return name == "" }))
		}
	}
	return wakes{}
}

// noteOvnEip looks again at the EIps that have the OvnEip, and at those that wait for it
// because it is the gateway of their router, or because kube-ovn gave both the same address.
func (p *Projects) noteOvnEip(name string, after *kubeovn.OvnEip) wakes {
	around := func() {
		p.queueAll(p.book.Behind(name))
		for _, rival := range p.book.Rivals(name) {
			p.queueAll(p.book.EIpsFor(rival))
		}
	}
	around()
	p.book.OvnEip(name, after)
	around()
	p.queueAll(p.book.EIpsFor(name))
	return wakes{}
}
