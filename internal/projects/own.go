package projects

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
)

// confirmation is how long an object that was written here may take to come back from the
// API server. Later, what comes from there counts, whatever its version is: etcd may have
// been restored.
const confirmation = 10 * time.Second

// ownWrites are objects that are in the book before an informer has reported them: what
// was written here, or was seen elsewhere. Without them, the next look would write them
// again.
type ownWrites map[string]*ownWrite

type ownWrite struct {
	object client.Object // nil if it is confirmed
	at     time.Time
	// underway counts requests, and gone has the UIDs of objects that were reported as
	// gone meanwhile.
	underway int
	gone     map[types.UID]bool
}

func keyOf(o client.Object) string {
	return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
}

// begins notes that an object is about to be written.
func (w ownWrites) begins(o client.Object) {
	of := w[keyOf(o)]
	if of == nil {
		of = &ownWrite{}
		w[keyOf(o)] = of
	}
	of.underway++
}

// ends notes that it was written, and says whether it is news. written is nil if that
// failed.
func (w ownWrites) ends(o, written client.Object, have client.Object, now time.Time) bool {
	of := w[keyOf(o)]
	of.underway--
	news := written != nil && !of.gone[written.GetUID()] && !older(written, have)
	if news {
		of.object, of.at = written, now
	}
	w.forget(o)
	return news
}

// saw notes an object that somebody else has read.
func (w ownWrites) saw(o client.Object, now time.Time) {
	w.begins(o)
	w.ends(o, o, nil, now)
}

// forget drops what is of no more use.
func (w ownWrites) forget(o client.Object) {
	if of := w[keyOf(o)]; of != nil && of.underway == 0 {
		of.gone = nil
		if of.object == nil {
			delete(w, keyOf(o))
		}
	}
}

// accepts says whether what an informer reports is newer than what the book has.
func (w ownWrites) accepts(before, after client.Object) bool {
	o := either(before, after)
	of := w[keyOf(o)]
	if of == nil {
		return true
	}
	if after == nil && of.underway > 0 {
		if of.gone == nil {
			of.gone = map[types.UID]bool{}
		}
		of.gone[o.GetUID()] = true
	}
	if of.object == nil {
		return true
	}
	late := time.Since(of.at) > confirmation
	switch {
	case after == nil && o.GetUID() != of.object.GetUID() && !late:
		return false // the one before
	case after != nil && older(after, of.object) && !late:
		return false
	}
	of.object = nil
	w.forget(o)
	return true
}

// older says whether a is an older version of an object than b. What cannot be compared is
// not.
func older(a, b client.Object) bool {
	if a == nil || b == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// inBook says whether objects of that kind are in the book, and which version of one is.
func (p *Projects) inBook(o client.Object) (have client.Object, kept bool) {
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	switch o.(type) {
	case *api.EIp:
		if e := p.book.GetEIp(key); e != nil {
			return e, true
		}
	case *kubeovn.OvnEip:
		if e := p.book.GetOvnEip(key.Name); e != nil {
			return e, true
		}
	case *kubeovn.Vpc:
		if v := p.book.GetVpc(key.Name); v != nil {
			return v, true
		}
	default:
		return nil, false
	}
	return nil, true
}

// known says whether the book has that version of an object.
func (p *Projects) known(o client.Object) bool {
	if o == nil {
		return false
	}
	have, _ := p.inBook(o)
	return have != nil && have.GetUID() == o.GetUID() && have.GetResourceVersion() == o.GetResourceVersion()
}

// writing carries out a write of an object, and puts what came of it into the book.
func (p *Projects) writing(o client.Object, write func() (written client.Object, err error)) error {
	p.mu.Lock()
	_, kept := p.inBook(o)
	if kept {
		p.own.begins(o)
	}
	p.mu.Unlock()
	written, err := write()
	if !kept {
		return err
	}
	if err != nil {
		written = nil
	}
	if written != nil {
		written.SetManagedFields(nil)
	}
	p.mu.Lock()
	var wakes wakes
	if have, _ := p.inBook(o); p.own.ends(o, written, have, time.Now()) {
		wakes = p.note(have, written)
	}
	p.mu.Unlock()
	p.wakeUp(wakes)
	return err
}

// doomed is an object that was deleted, as far as is known: finalizers may keep it.
func doomed(o client.Object, now time.Time) client.Object {
	out, _ := o.DeepCopyObject().(client.Object)
	at := metav1.NewTime(now)
	out.SetDeletionTimestamp(&at)
	return out
}
