package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/kubedc"
)

// Decode reads the objects of a file as they would be in the cluster if they were
// applied: what they do not say stays as it is. Those without a namespace are in
// namespace. Kinds that decide nothing about addresses are an error.
func (s *Snapshot) Decode(data []byte, namespace string) (out []client.Object, err error) {
	sch, err := newScheme()
	if err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(sch, serializer.EnableStrict).UniversalDeserializer()
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		if document, err = yaml.YAMLToJSONStrict(document); err != nil {
			return nil, err
		}
		decoded, kind, err := decoder.Decode(document, nil, nil)
		object, ok := decoded.(client.Object)
		if runtime.IsNotRegisteredError(err) {
			if object = routeObject(document); object != nil {
				version := object.GetObjectKind().GroupVersionKind()
				kind, ok, err = &version, true, nil
			}
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("%s is not an object", kind.Kind)
		}
		if object, err = s.applied(object, document, namespace); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		out = append(out, object)
	}
	if len(out) == 0 {
		return nil, errors.New("no object is in it")
	}
	return out, nil
}

// applied returns the object as it would be in the cluster.
func (s *Snapshot) applied(object client.Object, document []byte, namespace string) (client.Object, error) {
	var known client.ObjectList
	for _, list := range s.objects.lists {
		if holds(list, object) {
			known = list
		}
	}
	if known == nil {
		return object, errors.New("no decision depends on objects of this kind, or the kind is not installed")
	}
	if namespaced(known) && object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	if u, is := object.(*unstructured.Unstructured); is {
		return s.appliedRoute(u), nil
	}
	before := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object) //nolint:forcetypeassert // it is of the same type
	if s.objects.Get(still, client.ObjectKeyFromObject(object), before) != nil {
		object.SetCreationTimestamp(metav1.NewTime(s.At))
		object.SetUID("planned")
		return object, nil //nolint:nilerr // it is not there yet
	}
	return merge(before, object, document)
}

// appliedRoute is applied for objects without a Go type of their own: maps are merged.
func (s *Snapshot) appliedRoute(object *unstructured.Unstructured) client.Object {
	for list := range s.objects.lists {
		before := &unstructured.Unstructured{}
		before.SetGroupVersionKind(object.GroupVersionKind())
		before.SetAPIVersion(list.GroupVersion().String())
		if s.objects.Get(still, client.ObjectKeyFromObject(object), before) == nil {
			merged := before.DeepCopy()
			mergeMaps(merged.Object, object.Object)
			return merged
		}
	}
	object.SetCreationTimestamp(metav1.NewTime(s.At))
	object.SetUID("planned")
	return object
}

func mergeMaps(into, from map[string]any) {
	for key, value := range from {
		below, is := value.(map[string]any)
		if have, has := into[key].(map[string]any); is && has {
			mergeMaps(have, below)
			continue
		}
		into[key] = value
	}
}

// namespaced says whether objects of the list have a namespace.
func namespaced(list client.ObjectList) bool {
	switch list.(type) {
	case *corev1.NodeList, *corev1.NamespaceList:
		return false
	case *corev1.ServiceList, *kubedc.EIpList, *kubedc.FIpList, *kubedc.ProjectList:
		return true
	}
	found := false
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if object, ok := o.(client.Object); ok && object.GetNamespace() != "" {
			found = true
		}
		return nil
	})
	return found
}

// merge returns before with what the document, which is JSON, says.
func merge(before, object client.Object, document []byte) (client.Object, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return object, err
	}
	merged, err := strategicpatch.StrategicMergePatch(old, document, object)
	if err != nil {
		return object, err
	}
	out := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object) //nolint:forcetypeassert // it is of the same type
	if err := json.Unmarshal(merged, out); err != nil {
		return object, err
	}
	return out, nil
}
