package main

import (
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
)

// opaque are MetalLB's kinds about BGP. Their objects keep whatever they are given, and are
// checked when they are read: one with a bad value is reported, and hides no others.
var opaque = []struct {
	kind, plural string
	versions     []string // the one that is stored first
	columns      []apiextensionsv1.CustomResourceColumnDefinition
}{
	{"BGPPeer", "bgppeers", []string{"v1beta2", "v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("Address", "string", ".spec.peerAddress"), column("ASN", "string", ".spec.peerASN"),
		column("BFD Profile", "string", ".spec.bfdProfile"), column("Multi Hops", "string", ".spec.ebgpMultiHop"), ready, reason,
	}},
	{"BGPAdvertisement", "bgpadvertisements", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("IPAddressPools", "string", ".spec.ipAddressPools"), column("IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors"),
		column("Peers", "string", ".spec.peers"), ready, reason,
	}},
	{"BFDProfile", "bfdprofiles", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("Passive Mode", "boolean", ".spec.passiveMode"), column("Transmit Interval", "integer", ".spec.transmitInterval"),
		column("Receive Interval", "integer", ".spec.receiveInterval"), column("Detect Multiplier", "integer", ".spec.detectMultiplier"), ready, reason,
	}},
	{"Community", "communities", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{ready, reason}},
	{"ServiceBGPStatus", "servicebgpstatuses", []string{"v1beta1"}, []apiextensionsv1.CustomResourceColumnDefinition{
		column("Node", "string", ".status.node"), column("Service Name", "string", ".status.serviceName"),
		column("Service Namespace", "string", ".status.serviceNamespace"),
	}},
}

// What MetalLB's own definitions do not show.
var (
	ready  = column("Ready", "string", `.status.conditions[?(@.type=="Ready")].status`)
	reason = column("Reason", "string", `.status.conditions[?(@.type=="Ready")].reason`)
)

func column(name, kind, path string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: kind, JSONPath: path}
}

// opaqueKinds makes the CRDs of opaque, beside those made from types.
func opaqueKinds() (files, error) {
	made := files{}
	group := metallb.GroupVersion.Group
	for _, k := range opaque {
		anything := true
		anyObject := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}
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
					Description: k.kind + " is one of MetalLB's custom resources for BGP. Its fields are as in MetalLB's documentation.\n" +
						"An object with a value that cannot be used has the reason in its condition Ready, and affects no other.",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"}, "spec": anyObject, "status": anyObject,
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
