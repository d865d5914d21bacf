package projects

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// follow begins to watch everything, and says which EIps and Services each change is
// about.
func (p *Projects) follow(ctx context.Context) error {
	for kind, changed := range map[client.Object]func(before, after client.Object){
		&corev1.Service{}:   p.serviceChanged,
		&corev1.Namespace{}: p.namespaceChanged,
	} {
		informer, err := p.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(true))
		if err != nil {
			return fmt.Errorf("watch for projects: %w", err)
		}
		if _, err := informer.AddEventHandler(handler(changed)); err != nil {
			return fmt.Errorf("watch for projects: %w", err)
		}
	}
	for _, k := range kinds {
		// The set is locked while it calls Came.
		f := apikinds.Follower{Came: func() { go p.everything() }, Changed: p.networkChanged}
		switch k.GroupVersionKind {
		case kindEIp:
			f.Changed = p.eipChanged
		case kindFIp:
			f.Changed = p.fipChanged
		case kindOvnEip:
			f.Changed = p.ovnEipChanged
		}
		if err := p.kinds.Follow(k.GroupVersionKind, f); err != nil {
			return fmt.Errorf("watch %s: %w", k.Kind, err)
		}
	}
	return p.kinds.Look(ctx)
}

func handler(changed func(before, after client.Object)) toolscache.ResourceEventHandlerFuncs {
	object := func(o any) client.Object {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		out, _ := o.(client.Object)
		return out
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(nil, object(o)) },
		DeleteFunc: func(o any) { changed(object(o), nil) },
		UpdateFunc: func(before, after any) { changed(object(before), object(after)) },
	}
}

// everything looks at all EIps and Services again.
func (p *Projects) everything() {
	p.queueEIps("", func(*api.EIp) bool { return true })
	p.wake()
}

func (p *Projects) queueEIps(namespace string, which func(*api.EIp) bool) {
	if !p.kinds.Has(kindEIp) {
		return
	}
	var list api.EIpList
	if err := p.cache.List(context.Background(), &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not filled: every EIp is still to come
	}
	for i := range list.Items {
		if which(&list.Items[i]) {
			p.queue.Add(types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name})
		}
	}
}

func (p *Projects) eipChanged(before, after client.Object) {
	o := either(before, after)
	p.queue.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
	if before == nil || after == nil { // Services may have waited for it, or have to do without
		p.wakeNamespace(o.GetNamespace())
	}
}

func (p *Projects) fipChanged(before, after client.Object) {
	for _, o := range []client.Object{before, after} {
		if f, ok := o.(*api.FIp); ok && f != nil {
			p.queueEIps(f.Namespace, func(e *api.EIp) bool { return e.Name == f.Spec.EIp || e.Name == f.Status.EIp })
		}
	}
}

func (p *Projects) ovnEipChanged(before, after client.Object) {
	o := either(before, after)
	uid, name := o.GetLabels()[eip.LabelUID], o.GetName()
	if uid == "" { // it may be the gateway of a router, for which EIps wait
		p.queueEIps("", func(e *api.EIp) bool {
			return !e.Status.Ready || e.Spec.ChildRef == name || e.Status.OvnEIpRef == name
		})
		return
	}
	p.queueEIps(o.GetLabels()[eip.LabelNamespace], func(e *api.EIp) bool { return string(e.UID) == uid })
}

// serviceChanged looks again at the EIps that a Service asks for, or has.
func (p *Projects) serviceChanged(before, after client.Object) {
	for _, o := range []client.Object{before, after} {
		s, ok := o.(*corev1.Service)
		if !ok || s == nil {
			continue
		}
		value := kubeapi.Service(s)
		claim, _ := p.o.Claim(value)
		published := value.Published()
		ref := value.Key.String()
		p.queueEIps(s.Namespace, func(e *api.EIp) bool {
			a, err := lb.ParseAddr(e.Status.IPAddress)
			return e.Labels[eip.LabelService] == string(s.UID) || claim.Wish.EIp == e.Name || err == nil && slices.Contains(published, a) ||
				slices.ContainsFunc(e.Status.Owners, func(o api.Owner) bool {
					return o.OwnerRef == ref || o.OwnerRef == s.Name || strings.HasSuffix(o.OwnerRef, string(s.UID))
				})
		})
	}
}

// namespaceChanged looks again at a namespace whose annotations are others.
func (p *Projects) namespaceChanged(before, after client.Object) {
	if before != nil && after != nil && reflect.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) {
		return
	}
	name := either(before, after).GetName()
	p.queueEIps(name, func(*api.EIp) bool { return true })
	p.wakeNamespace(name)
}

// networkChanged looks at everything again if a network is another one. How many
// addresses a subnet has left changes with every address, and is for sentences only.
func (p *Projects) networkChanged(before, after client.Object) {
	if before != nil && after != nil && reflect.DeepEqual(network(before), network(after)) {
		return
	}
	p.everything()
}

// network is what of an object says where addresses are from.
func network(o client.Object) any {
	switch o := o.(type) {
	case *kubeovn.Vpc:
		return []any{o.Spec, o.Status}
	case *kubeovn.Subnet:
		return []any{o.Labels, o.Spec, o.DeletionTimestamp}
	case *api.Project:
		return []any{o.Spec, o.Status}
	}
	return o
}

// wakeNamespace wakes the Services of a namespace.
func (p *Projects) wakeNamespace(namespace string) {
	var list corev1.ServiceList
	if err := p.cache.List(context.Background(), &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not filled: every Service is still to come
	}
	var keys []types.NamespacedName
	for i := range list.Items {
		if value := kubeapi.Service(&list.Items[i]); value.LoadBalancer {
			keys = append(keys, value.Key)
		}
	}
	if len(keys) > 0 {
		p.wake(keys...)
	}
}

func either(before, after client.Object) client.Object {
	if after != nil {
		return after
	}
	return before
}
