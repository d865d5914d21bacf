package apikinds

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"fairlead.io/api/metallb"
)

// Rights are tried out: to list and to watch, of one object or of all.
func TestRefused(t *testing.T) {
	admin, err := kubernetes.NewForConfig(api.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	const user = "reader"
	limited := rest.CopyConfig(api.RESTConfig())
	limited.Impersonate.UserName = user
	as, err := kubernetes.NewForConfig(limited)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	configMap := func(namespace, name string) resource {
		return resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: namespace, Name: name}
	}
	check := func(of resource, want string) {
		t.Helper()
		for { // rights take a moment
			why, err := refused(ctx, as.Discovery().RESTClient(), of)
			switch {
			case err != nil:
				t.Fatalf("%v: %v; last it was %q", of, err, why)
			case why == want || want != "" && strings.Contains(why, want):
				return
			}
		}
	}
	check(configMap("default", "one"), `configmaps "one" is forbidden: User "reader" cannot list resource "configmaps"`)
	check(resource{GroupVersionResource: metallb.GroupVersion.WithResource("communities")}, `forbidden: User "reader" cannot list`)

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"one"}, Verbs: []string{"list"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	if _, err := admin.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(configMap("default", "one"), `cannot watch resource "configmaps"`)
	role.Rules[0].Verbs = []string{"list", "watch"}
	if _, err := admin.RbacV1().Roles("default").Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(configMap("default", "one"), "")
	check(configMap("default", "other"), "forbidden")
	check(configMap("", ""), "forbidden")

	as = admin
	check(resource{GroupVersionResource: metallb.GroupVersion.WithResource("communities")}, "could not find the requested resource")
}
