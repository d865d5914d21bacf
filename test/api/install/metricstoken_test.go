package install

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The token that monitors name permits to read metrics, and nothing else.
func TestTokenOfMonitors(t *testing.T) {
	api, c := startAPI(t)
	out := run(t, "go", "tool", "-modfile=tools.mod", "helm", "template", "fairlead", "charts/fairlead", "--namespace", namespace,
		"--set", "metrics.podMonitor.enabled=true", "--show-only", "templates/metrics.yaml")
	all, err := objects([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	config := rest.AnonymousClientConfig(api.RESTConfig())
	eventually(t, "the Secret has a token", func(ctx context.Context) error {
		var secret corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "fairlead-metrics"}, &secret)
		if config.BearerToken = string(secret.Data["token"]); err == nil && config.BearerToken == "" {
			err = errors.New("it has none")
		}
		return err
	})
	reader := newClient(t, config)
	allowed := func(spec authorizationv1.SelfSubjectAccessReviewSpec) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: spec}
		err := reader.Create(t.Context(), review)
		return review.Status.Allowed, err
	}
	eventually(t, "the token permits to read metrics", func(context.Context) error {
		ok, err := allowed(authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"}})
		if err == nil && !ok {
			err = errors.New("denied")
		}
		return err
	})
	for _, resource := range []string{"pods", "services", "secrets", "nodes"} {
		if ok, err := allowed(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Namespace: namespace, Resource: resource}}); ok || err != nil {
			t.Errorf("the token permits to list %s: %t, %v", resource, ok, err)
		}
	}
}
