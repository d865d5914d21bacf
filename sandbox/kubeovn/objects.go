package kubeovn

import (
	_ "embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed project.yaml
var project string

//go:embed central.yaml
var central string

// Project returns the objects of a project of kube-dc, with the names of its
// documentation, in the order in which they are made.
func Project() []*unstructured.Unstructured { return objects(project) }

// Central returns the Deployment whose pods have OVN's programs.
func Central() []*unstructured.Unstructured { return objects(central) }

func objects(text string) (all []*unstructured.Unstructured) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			panic(fmt.Sprintf("parse an embedded object: %v", err))
		}
		all = append(all, o)
	}
	return all
}
