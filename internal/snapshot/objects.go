package snapshot

import (
	"context"
	"maps"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects are lists that were read, each once. It is a client.Reader, so the code of the
// daemons reads it as it reads its cache. Nobody may change what is in it.
type objects struct {
	lists map[listKey]client.ObjectList
	// lacks has the kinds that could not be read, and why; "" is that they are not there.
	lacks map[schema.GroupVersionKind]string

	mu    sync.Mutex
	names map[listKey]map[client.ObjectKey]client.Object
}

// listKey is the type of a list, or of an object. Those without a Go type of their own have
// their kind beside it.
type listKey struct {
	reflect.Type
	schema.GroupVersionKind
}

func keyOf(o runtime.Object) listKey {
	out := listKey{Type: reflect.TypeOf(o)}
	switch o.(type) {
	case *unstructured.Unstructured, *unstructured.UnstructuredList:
		out.GroupVersionKind = o.GetObjectKind().GroupVersionKind()
	}
	return out
}

// still is the context of reads of objects in memory: they never wait.
var still = context.Background() //nolint:forbidigo // nothing is cancelled

func newObjects() *objects {
	return &objects{lists: map[listKey]client.ObjectList{}, lacks: map[schema.GroupVersionKind]string{}}
}

// add notes a list. Nobody may have looked for an object before.
func (o *objects) add(list client.ObjectList) { o.lists[keyOf(list)] = list }

// List shares the items of the list that was read. A kind that was not read has none.
// It takes no options: whoever reads a snapshot reads all of it.
func (o *objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if have := o.lists[keyOf(into)]; have != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(have).Elem())
	}
	return nil
}

// Get finds an object in the lists that were read.
func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := o.named(into)[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.String())
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

// named has the objects of the kind of one by name. It is made once: whoever decides looks
// for many.
func (o *objects) named(like client.Object) map[client.ObjectKey]client.Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind := keyOf(like)
	if all, made := o.names[kind]; made {
		return all
	}
	all := map[client.ObjectKey]client.Object{}
	for _, list := range o.lists {
		if !holds(list, like) {
			continue
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok {
				all[client.ObjectKeyFromObject(object)] = object
			}
			return nil
		})
	}
	if o.names == nil {
		o.names = map[listKey]map[client.ObjectKey]client.Object{}
	}
	o.names[kind] = all
	return all
}

// has says whether a kind could not be read, and why.
func (o *objects) hasNot(kind schema.GroupVersionKind) (why string, lacks bool) {
	why, lacks = o.lacks[kind]
	return why, lacks
}

// with returns the same lists with objects added, or replaced if they are there.
func (o *objects) with(changed ...client.Object) (*objects, error) {
	out := &objects{lists: maps.Clone(o.lists), lacks: o.lacks}
	for kind, list := range o.lists {
		fresh := map[client.ObjectKey]client.Object{}
		var order []client.ObjectKey
		for _, c := range changed {
			if holds(list, c) {
				key := client.ObjectKeyFromObject(c)
				if fresh[key] == nil {
					order = append(order, key)
				}
				fresh[key] = c
			}
		}
		if len(fresh) == 0 {
			continue
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		var kept []runtime.Object
		for _, item := range items {
			if object, ok := item.(client.Object); ok && fresh[client.ObjectKeyFromObject(object)] == nil {
				kept = append(kept, item)
			}
		}
		for _, key := range order {
			kept = append(kept, fresh[key])
		}
		replaced := emptied(list)
		if err := meta.SetList(replaced, kept); err != nil {
			return nil, err
		}
		out.lists[kind] = replaced
	}
	return out, nil
}

// emptied returns an empty list of the same kind.
func emptied(list client.ObjectList) client.ObjectList {
	out, _ := reflect.New(reflect.TypeOf(list).Elem()).Interface().(client.ObjectList)
	if _, is := list.(*unstructured.UnstructuredList); is {
		out.GetObjectKind().SetGroupVersionKind(list.GetObjectKind().GroupVersionKind())
	}
	return out
}

// holds says whether objects like c are in the list. The version does not matter.
func holds(list client.ObjectList, c client.Object) bool {
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	if !items.IsValid() || items.Type().Elem() != reflect.TypeOf(c).Elem() {
		return false
	}
	if _, is := c.(*unstructured.Unstructured); !is {
		return true
	}
	a, b := list.GetObjectKind().GroupVersionKind(), c.GetObjectKind().GroupVersionKind()
	return a.Group == b.Group && a.Kind == b.Kind+"List"
}

// services, nodes: what is read most.
func (o *objects) nodes() []corev1.Node {
	var list corev1.NodeList
	_ = o.List(still, &list) // it cannot fail
	return list.Items
}

// replaced returns the same lists with another one in the place of its kind's.
func (o *objects) replaced(list client.ObjectList) *objects {
	out := &objects{lists: maps.Clone(o.lists), lacks: o.lacks}
	out.add(list)
	return out
}
