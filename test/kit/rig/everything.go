package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// releaseKinds are the kinds of objects that a release could leave behind.
var releaseKinds = map[string]string{
	"ConfigMap": "v1", "Secret": "v1", "Service": "v1", "ServiceAccount": "v1", "Pod": "v1",
	"Deployment": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
	"Lease": "coordination.k8s.io/v1", "PodDisruptionBudget": "policy/v1",
	"Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
	"ClusterRole": "rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
	"CustomResourceDefinition":       "apiextensions.k8s.io/v1",
	"ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}

// Everything lists what a release could leave behind, as "Kind namespace/name".
func Everything(ctx context.Context, c client.Client) ([]string, error) {
	var found []string
	for kind, apiVersion := range releaseKinds {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		if err := c.List(ctx, list); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for _, o := range list.Items {
			// Kubernetes makes these in its own time.
			if slices.Contains([]string{"default", "kubernetes", "kube-root-ca.crt"}, o.GetName()) || strings.HasPrefix(o.GetNamespace(), "kube-") {
				continue
			}
			found = append(found, strings.ReplaceAll(kind+" "+o.GetNamespace()+"/"+o.GetName(), " /", " "))
		}
	}
	return found, nil
}
