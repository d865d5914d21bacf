package main

import (
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
)

// unserved are the kinds of MetalLB that have no effect here. They are defined so
// that whole manifests of MetalLB can be applied, and keep whatever they are given.
var unserved = []struct {
	kind, plural string
	versions     []string // the one that is stored first
	columns      []apiextensionsv1.CustomResourceColumnDefinition
}{
	{"BGPPeer", "bgppeers", []string{"v1beta2", "v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("Address", "string", ".spec.peerAddress"), column("ASN", "string", ".spec.peerASN"),
		column("BFD Profile", "string", ".spec.bfdProfile"), column("Multi Hops", "string", ".spec.ebgpMultiHop"),
	}},
	{"BGPAdvertisement", "bgpadvertisements", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("IPAddressPools", "string", ".spec.ipAddressPools"), column("IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors"),
		column("Peers", "string", ".spec.peers"),
	}},
	{"BFDProfile", "bfdprofiles", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("Passive Mode", "boolean", ".spec.passiveMode"), column("Transmit Interval", "integer", ".spec.transmitInterval"),
		column("Receive Interval", "integer", ".spec.receiveInterval"), column("Detect Multiplier", "integer", ".spec.detectMultiplier"),
	}},
	{"Community", "communities", []string{"v1beta1"}, nil},
	{"ServiceBGPStatus", "servicebgpstatuses", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("Node", "string", ".status.node"), column("Service Name", "string", ".status.serviceName"),
		column("Service Namespace", "string", ".status.serviceNamespace"),
	}},
}

func column(name, kind, path string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: kind, JSONPath: path}
}

// unservedKinds makes the CRDs of unserved, beside those made from types.
func unservedKinds() (files, error) {
	made := files{}
	group := metallb.GroupVersion.Group
	for _, k := range unserved {
		anything := true
		opaque := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
		crd := apiextensionsv1.CustomResourceDefinition{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: k.plural + "." + group, Annotations: map[string]string{}},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.kind, ListKind: k.kind + "List", Plural: k.plural, Singular: strings.ToLower(k.kind)},
				Scope: apiextensionsv1.NamespaceScoped,
			},
		}
		for i, version := range k.versions {
			crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
				Name: version, Served: true, Storage: i == 0, AdditionalPrinterColumns: k.columns,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Description: k.kind + " is one of MetalLB's custom resources for BGP, which Fairlead does not support.\n" +
						"Fairlead keeps the objects and ignores them. Use an L2Advertisement instead.",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"}, "spec": opaque, "status": opaque,
					},
				}},
			})
		}
		raw, err := withoutStatus(crd)
		if err != nil {
			return nil, err
		}
		made[filepath.Join(crdDirs["api/metallb"], group+"_"+k.plural+".yaml")] = raw
	}
	return made, nil
}

// withoutStatus writes a definition without the status that the type always has.
func withoutStatus(crd apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	raw, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := yaml.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	delete(m, "status")
	m["metadata"].(map[string]any)["annotations"] = map[string]string{}
	if raw, err = yaml.Marshal(m); err != nil {
		return nil, err
	}
	return append([]byte("---\n"), raw...), nil
}
