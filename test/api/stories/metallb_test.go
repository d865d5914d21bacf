package stories

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/charts"
	"fairlead.io/test/kit/rig"
)

// metallbKinds by how names in the stories' commands begin.
var metallbKinds = map[string]schema.GroupVersionKind{
	"ipaddresspool":      metallbapi.GroupVersion.WithKind("IPAddressPool"),
	"l2advertisement":    metallbapi.GroupVersion.WithKind("L2Advertisement"),
	"configurationstate": metallbapi.GroupVersion.WithKind("ConfigurationState"),
	"bgppeer":            {Group: metallbapi.GroupVersion.Group, Version: "v1beta2", Kind: "BGPPeer"},
	"bgppeer.v1beta1":    metallbapi.GroupVersion.WithKind("BGPPeer"),
	"bgpadvertisement":   metallbapi.GroupVersion.WithKind("BGPAdvertisement"),
	"bfdprofile":         metallbapi.GroupVersion.WithKind("BFDProfile"),
	"community":          metallbapi.GroupVersion.WithKind("Community"),
}

// metallb installs kinds, or removes all.
func (s *story) metallb(args []string) error {
	s.kindsChanged = true
	crds := charts.MetalLBCRDs()
	switch {
	case slices.Equal(args, []string{"remove"}):
		s.rig.RemoveMetalLB(s.t)
		return nil
	case slices.Equal(args, []string{"install", "bare"}):
		s.rig.InstallMetalLB(s.t, rig.BareMetalLBCRDs()...)
		return nil
	case slices.Equal(args, []string{"install", "old"}):
		s.rig.InstallMetalLB(s.t, rig.OldMetalLBCRDs()...)
		return nil
	case len(args) == 0 || args[0] != "install":
		return errors.New("usage: metallb install [bare | old | PLURAL...] | metallb remove")
	case len(args) > 1:
		crds = slices.DeleteFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
			return !slices.Contains(args[1:], crd.Spec.Names.Plural)
		})
		if len(crds) != len(args)-1 {
			return fmt.Errorf("not all of %q are known", args[1:])
		}
	}
	s.rig.InstallMetalLB(s.t, crds...)
	return nil
}

// readMetalLB reads an object in MetalLB's namespace, or the one in its name.
func (s *story) readMetalLB(kind, name string) (metav1.Object, *metav1.Condition, error) {
	// Without the help of the types that are tested.
	var o unstructured.Unstructured
	o.SetGroupVersionKind(metallbKinds[kind])
	key := types.NamespacedName{Namespace: rig.MetalLBNamespace, Name: name}
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		key = types.NamespacedName{Namespace: namespace, Name: name}
	}
	if err := s.rig.Client.Get(context.Background(), key, &o); err != nil {
		return nil, nil, err
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if raw, ok := o.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
			return nil, nil, err
		}
	}
	return &o, meta.FindStatusCondition(status.Conditions, "Ready"), nil
}

// countsMetalLB compares assigned and available IPv4 addresses, then IPv6.
func (s *story) countsMetalLB(name string, want []string) error {
	o, _, err := s.readMetalLB("ipaddresspool", name)
	if err != nil {
		return err
	}
	status, _ := o.(*unstructured.Unstructured).Object["status"].(map[string]any)
	var got []string
	for _, field := range []string{"assignedIPv4", "availableIPv4", "assignedIPv6", "availableIPv6"}[:min(len(want), 4)] {
		n, ok := status[field].(int64)
		if !ok {
			return fmt.Errorf("status is %v", status)
		}
		got = append(got, strconv.FormatInt(n, 10))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("assigned and available are %q", got)
	}
	return nil
}

// state compares the ConfigurationState of the controller.
func (s *story) state(args []string) error {
	o, _, err := s.readMetalLB("configurationstate", "controller")
	if err != nil {
		return err
	}
	status, _ := o.(*unstructured.Unstructured).Object["status"].(map[string]any)
	re, err := regexp.Compile(strings.Join(args[1:], " "))
	if err != nil {
		return err
	}
	if text, _ := status["errorSummary"].(string); status["result"] != args[0] || !re.MatchString(text) {
		return fmt.Errorf("status is %v", status)
	}
	return nil
}

// annotated compares an annotation; without a value it must not be there.
func (s *story) annotated(args []string) error {
	o, _, err := s.object(args[0])
	if err != nil {
		return err
	}
	has, ok := o.GetAnnotations()[args[1]]
	switch {
	case len(args) == 2 && ok:
		return fmt.Errorf("it is %q", has)
	case len(args) > 2 && has != args[2]:
		return fmt.Errorf("it is %q", has)
	}
	return nil
}
