package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
)

// picture is what a suite must leave as it found it.
type picture struct {
	Objects []string          // as object.String says
	Nodes   map[string]string // what others have changed on them
}

// kinds of objects that tests make.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Pod"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}, {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
}

// ours are the names of what tests make among the objects of Kubernetes.
var ours = regexp.MustCompile(`fairlead|metallb|kube-?vip|cloudscale`)

// ofKubernetes reports whether o is an object that Kubernetes makes whenever it likes.
func ofKubernetes(o object) bool {
	switch o.Name {
	case "default", "kubernetes", "kube-root-ca.crt":
		return true
	}
	return (strings.HasPrefix(o.Namespace, "kube-") || strings.HasPrefix(o.Name, "system:")) && !ours.MatchString(o.Name)
}

type object struct{ *metav1.PartialObjectMetadata }

func (o object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// objects lists what tests could have made.
func objects(ctx context.Context, c kube.Client) (out []object, err error) {
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := object{&list.Items[i]}
			o.SetGroupVersionKind(kind)
			if !ofKubernetes(o) {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// look takes a picture of a cluster in which all is well.
func look(ctx context.Context, cluster *sandbox.Cluster, c kube.Client) (picture, error) {
	p := picture{Nodes: map[string]string{}}
	all, err := objects(ctx, c)
	if err != nil {
		return p, err
	}
	for _, o := range all {
		p.Objects = append(p.Objects, o.String())
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return p, err
	}
	for _, n := range nodes.Items {
		out, err := cluster.Exec(ctx, n.Name, "sh", "-c", "nft list tables | grep fairlead; ip -o address | awk '$2 ~ /^eth/ && $4 !~ /^fe80/ {print $2, $4}' | sort")
		if err != nil {
			return p, fmt.Errorf("look at %s: %w", n.Name, err)
		}
		p.Nodes[n.Name] = fmt.Sprintf("labels %v, taints %v, cordoned %t, has\n%s", n.Labels, n.Spec.Taints, n.Spec.Unschedulable, out)
	}
	return p, nil
}

// restore removes objects that were not there before, and waits until all else is as
// it was.
func restore(ctx context.Context, cluster *sandbox.Cluster, before picture) error {
	c, err := Client(cluster)
	if err != nil {
		return err
	}
	return Await(ctx, 2*time.Minute, func() error {
		if err := sweep(ctx, c, before); err != nil {
			return err
		}
		now, err := look(ctx, cluster, c)
		if err != nil {
			return err
		}
		for name, was := range before.Nodes {
			if now.Nodes[name] != was {
				return fmt.Errorf("%s was: %s, is: %s", name, was, now.Nodes[name])
			}
		}
		if len(now.Nodes) != len(before.Nodes) {
			return fmt.Errorf("the nodes are %v", slices.Sorted(maps.Keys(now.Nodes)))
		}
		return nil
	})
}

// sweep deletes what was not there before, and all events. It fails while there is
// any.
func sweep(ctx context.Context, c kube.Client, before picture) error {
	all, err := objects(ctx, c)
	if err != nil {
		return err
	}
	var left []error
	for _, o := range all {
		if slices.Contains(before.Objects, o.String()) {
			continue
		}
		left = append(left, fmt.Errorf("there is still %s", o))
		if err := c.Delete(ctx, o.PartialObjectMetadata); kube.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			left = append(left, err)
		}
	}
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces); err != nil {
		return err
	}
	for _, n := range namespaces.Items {
		if err := c.DeleteAllOf(ctx, &corev1.Event{}, kube.InNamespace(n.Name)); err != nil {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}

// The picture of a cluster that was left as it was is in its own directory, so that
// both go together.
func pictureOf(c *sandbox.Cluster) string { return filepath.Join(c.StateDir, "as-it-was.json") }

func (p picture) hang(c *sandbox.Cluster) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(pictureOf(c), raw, 0o600)
}

// takeDown returns the picture of a cluster that was left as it was, which it is no
// longer from now on.
func takeDown(c *sandbox.Cluster) (p picture, err error) {
	raw, err := os.ReadFile(pictureOf(c))
	if err != nil {
		return p, err
	}
	return p, errors.Join(json.Unmarshal(raw, &p), os.Remove(pictureOf(c)))
}
