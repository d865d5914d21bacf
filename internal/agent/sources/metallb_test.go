package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"fairlead.io/test/kit/leak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/charts"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Against a real API server: objects that may not be read at first.
func TestWithoutTheRight(t *testing.T) {
	api, err := sandbox.StartAPI(t.Context(), sandbox.Options{NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	}()
	r, err := rig.New(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("ConfigMap", func(t *testing.T) { configMapIsReadOnceAllowed(t, r) })
	t.Run("MetalLB", func(t *testing.T) { metallbIsReadOnceAllowed(t, r) })
	t.Run("old peers", func(t *testing.T) { oldPeersAreRead(t, r) })
}

// Where the API server knows peers of v1beta1 alone, an agent reads these.
func oldPeersAreRead(t *testing.T, r *rig.Rig) {
	r.RemoveMetalLB(t)
	r.InstallMetalLB(t, rig.OldMetalLBCRDs()...)
	peer := &unstructured.Unstructured{}
	peer.SetGroupVersionKind(apimetallb.GroupVersion.WithKind(metallb.KindPeer))
	peer.SetNamespace(rig.MetalLBNamespace)
	peer.SetName("tor")
	peer.Object["spec"] = map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": "192.0.2.254"}
	rig.Eventually(t, "a peer", func() error { return r.Client.Create(t.Context(), peer.DeepCopy()) })
	reader, _, err := follow(t, t.Context(), Options{REST: rest.CopyConfig(r.API.RESTConfig()), Config: onlyUsing(metallb.Name), Log: slog.New(slog.DiscardHandler), MetalLBNamespace: rig.MetalLBNamespace})
	if err != nil {
		t.Fatal(err)
	}
	objects := reader.routers.objects.Load()
	if objects == nil {
		t.Fatal("objects for BGP were not read")
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(peer.GroupVersionKind())
	list.SetKind(metallb.KindPeer + "List")
	if err := objects.Reader.List(t.Context(), list); err != nil || len(list.Items) != 1 || !slices.Contains(objects.kinds, peer.GroupVersionKind()) {
		t.Errorf("read: %v %v, of %v", list.Items, err, objects.kinds)
	}
	onlyPasswordsAreKept(t, r, reader)

	// The next agent knows passwords when it has read peers: it may inherit their sessions.
	peer.Object["spec"].(map[string]any)["passwordSecret"] = map[string]any{"name": "tor"}
	peer.SetName("locked")
	if err := r.Client.Create(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	next, _, err := follow(t, t.Context(), Options{REST: rest.CopyConfig(r.API.RESTConfig()), Config: onlyUsing(metallb.Name), Log: slog.New(slog.DiscardHandler), MetalLBNamespace: rig.MetalLBNamespace})
	if err != nil {
		t.Fatal(err)
	}
	if next.routers.secrets.Load() == nil {
		t.Error("Secrets were not read, although a peer names one")
	}
}

// Of the Secrets beside peers, nothing is kept but passwords.
func onlyPasswordsAreKept(t *testing.T, r *rig.Rig, reader *Reader) {
	for name, kind := range map[string]corev1.SecretType{"tor": corev1.SecretTypeBasicAuth, "other": corev1.SecretTypeOpaque} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: rig.MetalLBNamespace, Name: name}, Type: kind,
			StringData: map[string]string{"username": "somebody", metallb.SecretKey: "secret"}}
		if err := r.Client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	reader.routers.need()
	var secrets corev1.SecretList
	rig.Eventually(t, "the agent has read Secrets", func() error {
		c := reader.routers.secrets.Load()
		if c == nil {
			return errors.New("not yet")
		}
		return (*c).List(t.Context(), &secrets)
	})
	var kept []string
	for _, s := range secrets.Items {
		for key := range s.Data {
			kept = append(kept, s.Name+" "+key)
		}
	}
	if !slices.Equal(kept, []string{"tor " + metallb.SecretKey}) {
		t.Errorf("kept are %q", kept)
	}
}

// An agent that may not read objects of MetalLB's kinds waits, and ends all the
// same; it reads them as soon as it may, by a right in one namespace.
func metallbIsReadOnceAllowed(t *testing.T, r *rig.Rig) {
	r.InstallMetalLB(t, charts.MetalLBCRDs()...)
	kube, err := kubernetes.NewForConfig(r.API.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{rig.MetalLBNamespace, "default"} {
		pool := &apimetallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge"}, Spec: apimetallb.IPAddressPoolSpec{Addresses: []string{"192.0.2.0/24"}}}
		rig.Eventually(t, "a pool in namespace "+namespace, func() error { return r.Client.Create(t.Context(), pool) })
	}
	begin := func() (*journal, Options) {
		j := &journal{about: "/metallb.io/v1beta"}
		o := Options{REST: rest.CopyConfig(r.API.RESTConfig()), Config: onlyUsing(metallb.Name), Log: slog.New(slog.DiscardHandler), MetalLBNamespace: rig.MetalLBNamespace}
		o.REST.Impersonate.UserName = "some-agent"
		o.REST.Wrap(j.of)
		return j, o
	}
	asked := func(t *testing.T, j *journal, resources ...string) {
		rig.Eventually(t, "the agent has asked", func() error {
			for _, resource := range resources {
				if line := fmt.Sprintf("/namespaces/%s/%s\n", rig.MetalLBNamespace, resource); !strings.Contains(j.String(), line) {
					return fmt.Errorf("not for %s, but\n%s", resource, j)
				}
			}
			return nil
		})
	}
	t.Run("and ends", func(t *testing.T) { // see TestMain for what it may leave behind
		j, o := begin()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, _, err := follow(t, ctx, o)
			ended <- err
		}()
		asked(t, j, "ipaddresspools", "l2advertisements")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	j, o := begin()
	ended := make(chan error)
	var reader *Reader
	go func() {
		var err error
		reader, _, err = follow(t, t.Context(), o)
		ended <- err
	}()
	asked(t, j, "ipaddresspools", "l2advertisements")
	meta := metav1.ObjectMeta{Namespace: rig.MetalLBNamespace, Name: "some-agent"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{apimetallb.GroupVersion.Group}, Resources: []string{"ipaddresspools", "l2advertisements"}, Verbs: []string{"get", "list", "watch"}}}}
	if _, err := kube.RbacV1().Roles(meta.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "some-agent"}}}
	if _, err := kube.RbacV1().RoleBindings(meta.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var pools apimetallb.IPAddressPoolList
	if err := (*reader.metallb.Load()).List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	if len(pools.Items) != 1 || pools.Items[0].Namespace != rig.MetalLBNamespace {
		t.Errorf("read: %v", pools.Items)
	}
	for line := range strings.Lines(j.String()) {
		if strings.HasPrefix(line, "asked for") && strings.Count(line, "/") > 3 && !strings.Contains(line, "/namespaces/"+rig.MetalLBNamespace+"/") {
			t.Error(line)
		}
	}
}
