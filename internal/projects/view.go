package projects

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
)

// Why objects cannot be read.
var (
	// ErrUnread says that they have not been read yet.
	ErrUnread = errors.New("kube-dc's and kube-ovn's objects have not been read yet")
	// ErrLacking says that the API server does not have some of them, or does not let us
	// read them.
	ErrLacking = errors.New("not all of kube-dc's and kube-ovn's objects can be read")
)

// readable says why not all objects can be read; nil if they can.
func (p *Projects) readable() error {
	if !p.looked.Load() {
		return ErrUnread
	}
	for _, k := range kinds {
		if why, lacks := p.kinds.Lacks(k.GroupVersionKind); lacks && !slices.Contains(optional, k.GroupVersionKind) {
			return fmt.Errorf("%w: %s", ErrLacking, why)
		}
		for _, told := range p.kinds.Told(k.GroupVersionKind) {
			if !toolscache.IsDone(told) {
				return ErrUnread
			}
		}
	}
	return nil
}

// View returns what is so for a Service, which may be newer than the one that was read
// here. It fails while not everything can be read: then everything stays as it is. From
// then on, the Service is woken when it has something else.
func (p *Projects) View(s *lb.Service) (*eip.View, error) {
	if err := p.readable(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.see(s)
	v := p.book.LookAtService(s.Key, p.o.Rows, time.Now())
	if !p.gone.has(s.UID) {
		p.bound[s.Key] = v.Service(s.UID)
	}
	return v, nil
}

// see puts a Service into the book, in place of an older version of it. The one that looks
// may not know yet that it is gone.
func (p *Projects) see(s *lb.Service) {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name, UID: s.UID, ResourceVersion: s.Version}}
	have := &corev1.Service{}
	if c := p.book.Claim(s.Key); c != nil {
		have.ResourceVersion = c.Service.Version
	}
	if c := p.claimOf(s); c != nil && !p.gone.has(s.UID) && !older(o, have) && s.Version != have.ResourceVersion {
		value := *s
		c.Service = &value
		p.book.Service(s.Key, s.UID, c)
		p.own.saw(o, time.Now())
	}
}

// claimOf is what a Service asks for; nil if it is none of ours.
func (p *Projects) claimOf(s *lb.Service) *eip.Claim {
	if c, ok := p.o.Claim(s); ok && !s.Deleting {
		return &c
	}
	return nil
}

// Locate returns where the Services of a namespace are served, as kubedc.Locate does. None
// of the kinds has to be there.
func (p *Projects) Locate(namespace string) (place kubedc.Place, ok bool, problem string, err error) {
	if !p.looked.Load() {
		return place, false, "", ErrUnread
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	place, ok, problem = p.book.Place(namespace)
	return place, ok, problem, nil
}
