package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/kubedc"
	apimetallb "fairlead.io/api/metallb"
	format "fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// File is a file to check.
type File struct {
	Name string
	Data []byte
}

// CheckFiles says what is wrong with pools, advertisements, Services and the ConfigMap
// of kube-vip's cloud provider in files. It needs no cluster. Objects without a namespace
// are in namespace. Those of MetalLB's kinds count in metallbNamespace; "" is the default.
func CheckFiles(c *config.Configuration, files []File, namespace, metallbNamespace string) (*Checks, error) {
	out := &Checks{Time: metav1.NewTime(time.Now())}
	var all []client.Object
	others := map[string]int{}
	for _, f := range files {
		objects, err := decodeAll(f.Data, func(kind string) { others[kind]++ })
		if err != nil {
			out.add(Check{Name: f.Name, Mark: Failed, Fact: err.Error()})
		}
		all = append(all, objects...)
	}
	for _, kind := range slices.Sorted(maps.Keys(others)) {
		out.add(Check{Name: kind, Mark: Skipped, Fact: fmt.Sprintf("%d objects: Fairlead does not read this kind", others[kind])})
	}
	s, err := made(time.Now(), c, metallbNamespace, complete(all, namespace)...)
	if err != nil {
		return nil, err
	}
	for _, u := range s.Survey.Usage {
		x := Check{Name: "pool " + u.Key.String(), Mark: Passed, Fact: poolState(u).Summary(), Reason: string(u.Reason.Code)}
		if !u.Reason.Ready() && u.Reason.Code != lb.PoolDisabled {
			x.Mark, x.Fact = Failed, u.Reason.Text
		}
		out.add(x)
	}
	for _, w := range s.Survey.Warnings {
		out.add(Check{Name: strings.ToLower(w.About.Kind) + " " + w.About.Name, Mark: Failed, Fact: w.Reason.Text, Reason: string(w.Reason.Code)})
	}
	out.poolPeers(s, all)
	out.advertising(s, all)
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.Service:
			out.service(s, o)
		case *kubedc.EIp:
			out.eip(o)
		}
	}
	return out, nil
}

// advertising checks what is not about pools: advertisements, and all that is about BGP.
func (c *Checks) advertising(s *Snapshot, all []client.Object) {
	wrong := map[string]bool{}
	for _, p := range s.objectProblems() {
		if p.Reason == string(metallb.PeerUnused) { // no agent is asked
			continue
		}
		wrong[p.About] = true
		c.add(Check{Name: p.About, Mark: Failed, Fact: p.Message, Reason: p.Reason})
	}
	for _, o := range all {
		u, is := o.(*unstructured.Unstructured)
		if about := strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind) + " " + o.GetName(); is && !wrong[about] {
			x := Check{Name: about, Mark: Passed, Fact: "it can be used"}
			if unknown := unknownFields(u); unknown != "" {
				x.Mark, x.Fact, x.Fix = Failed, unknown, "Correct its name: docs/reference/kinds.md."
			}
			c.add(x)
		}
	}
}

// unknownFields says which field of an object about BGP nobody reads, or "".
func unknownFields(o *unstructured.Unstructured) string {
	var into any
	switch o.GetKind() {
	case metallb.KindPeer:
		into = &apimetallb.BGPPeerSpec{}
	case metallb.KindBGPAdvertisement:
		into = &apimetallb.BGPAdvertisementSpec{}
	case metallb.KindProfile:
		into = &apimetallb.BFDProfileSpec{}
	default:
		into = &apimetallb.CommunitySpec{}
	}
	data, err := json.Marshal(o.Object["spec"])
	if err != nil {
		return "" // never: it was JSON
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && strings.Contains(err.Error(), "unknown field") {
		return strings.TrimPrefix(err.Error(), "json: ") + " in spec"
	}
	return ""
}

// aboutRequests are the reasons that are about what a Service asks for, whatever the
// cluster has.
var aboutRequests = []lb.Code{lb.InvalidRequest, lb.FamilyMismatch, lb.SharingConflict}

// aboutPools are those that depend on the pools, and count if the files have pools.
var aboutPools = []lb.Code{lb.UnknownPool, lb.AddressNotInPool, lb.AddressInUse, lb.AddressReserved, lb.PoolNotAllowed, lb.NoPoolMatches, lb.FamilyUnavailable, lb.PoolExhausted, lb.QuotaExceeded, lb.PoolUnavailable}

// service checks one Service.
func (c *Checks) service(s *Snapshot, object *corev1.Service) {
	key := client.ObjectKeyFromObject(object)
	name := "service " + key.String()
	unknown := unknownAnnotations(object.Annotations)
	for _, a := range unknown {
		c.add(Check{Name: name, Mark: Failed, Fact: "Nothing reads annotation " + a + ".", Fix: "Correct its name: docs/reference/annotations.md."})
	}
	of := s.Service(key)
	switch {
	case of == nil:
		return // another type
	case of.Class == nil:
		c.add(Check{Name: name, Mark: Skipped, Fact: fmt.Sprintf("class %q is not in the configuration", of.Service.Class)})
	case of.Settled && (slices.Contains(aboutRequests, of.Verdict.Reason.Code) || len(s.Survey.Pools) > 0 && slices.Contains(aboutPools, of.Verdict.Reason.Code)):
		c.add(Check{Name: name, Mark: Failed, Fact: of.Verdict.Reason.Text, Reason: string(of.Verdict.Reason.Code)})
	case of.Settled && c.routeAnnotations(s, of):
	case hasEIps(of.Class) && c.boundService(s, of):
	case len(unknown) == 0:
		c.add(Check{Name: name, Mark: Passed, Fact: "backend " + string(of.Class.Backend)})
	}
}

// decodeAll reads the objects of a file. Kinds that are not read are told to other.
func decodeAll(data []byte, other func(kind string)) (out []client.Object, err error) {
	sch, err := newScheme()
	if err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(sch, serializer.EnableStrict).UniversalDeserializer()
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var wrong []error
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, errors.Join(wrong...)
		}
		if err == nil && len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		if err == nil {
			document, err = yaml.YAMLToJSONStrict(document)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("document %d: %w", n, err))
			continue
		}
		if bytes.Equal(document, []byte("null")) {
			continue // comments alone
		}
		decoded, kind, err := decoder.Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			if o := routeObject(document); o != nil {
				out = append(out, o)
			} else {
				other(kindOf(document))
			}
			continue
		}
		object, ok := decoded.(client.Object)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("document %d: %w", n, err))
		case !ok || !readKind(object):
			other(kind.Kind)
		default:
			object.GetObjectKind().SetGroupVersionKind(*kind)
			out = append(out, object)
		}
	}
}

// routeObject decodes an object about BGP; nil if it is none.
func routeObject(document []byte) client.Object {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(document); err != nil {
		return nil
	}
	if !slices.ContainsFunc(routeKinds(), func(k kind) bool { return k.gvk == o.GroupVersionKind() }) {
		return nil
	}
	return o
}

// kindOf is the kind of a document that cannot be decoded.
func kindOf(document []byte) string {
	var t metav1.TypeMeta
	if err := yaml.Unmarshal(document, &t); err != nil || t.Kind == "" {
		return "unknown kind"
	}
	return t.Kind
}

// readKind says whether objects of this kind decide anything.
func readKind(o client.Object) bool {
	if _, is := o.(*corev1.ConfigMap); is {
		return true
	}
	return slices.ContainsFunc(append((Options{}).kinds(), projectKinds()...), func(k kind) bool { return holds(k.list, o) })
}

// complete gives objects what the API server would give them, the first one being the
// oldest, and adds the namespaces that Services are in.
func complete(all []client.Object, namespace string) []client.Object {
	out := slices.Clone(all)
	began := time.Unix(0, 0)
	namespaces := map[string]bool{}
	for i, o := range all {
		o.SetUID(types.UID(fmt.Sprintf("%08d", i)))
		o.SetCreationTimestamp(metav1.NewTime(began.Add(time.Duration(i) * time.Second)))
		switch o := o.(type) {
		case *corev1.Namespace:
			namespaces[o.Name] = true
		case *corev1.Service, *corev1.ConfigMap, *kubedc.EIp, *kubedc.FIp, *kubedc.Project:
			if o.GetNamespace() == "" {
				o.SetNamespace(namespace)
			}
		}
	}
	for _, o := range all {
		if ns := o.GetNamespace(); ns != "" && !namespaces[ns] {
			namespaces[ns] = true
			// Files need not say what the network of a project is.
			out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Annotations: map[string]string{format.AnnotationRouter: ns}}})
		}
	}
	return out
}
