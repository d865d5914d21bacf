package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"fairlead.io/internal/config"
)

// read returns the files of a bundle.
func read(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(zip); ; {
		f, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(f.Name, "fairlead-bundle/")] = string(data)
	}
}

// Nothing secret is in a bundle, wherever somebody has put it.
func TestBundleHasNoSecret(t *testing.T) {
	const secret = "hunter22"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: "fairlead-controller-1",
			Labels:      map[string]string{labelName: labelFairlead, labelComponent: labelController},
			Annotations: map[string]string{lastApplied: "password: " + secret, "example.com/note": "ask for " + secret}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Args: []string{"controller", "--client-secret=" + secret, "--cloudsigma-password", secret, "--log-level=info"},
			Env:  []corev1.EnvVar{{Name: "CLOUDSCALE_ACCESS_TOKEN", Value: secret}, {Name: "bgp_peers", Value: "192.0.2.1:64500:" + secret + ":false"}, {Name: "POD_NAME", Value: "fairlead-controller-1"}},
		}}},
	}
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{"example.com/webhook": "https://x:" + secret + "@example.com", "fairlead.io/pool": "edge"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"example.com/join": secret}}}
	s, err := Of(time.Unix(0, 0), config.Default(), pod, web, node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if missing, err := s.Bundle(t.Context(), fake.NewClientset(pod), &out); err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	files := read(t, out.Bytes())
	for name, text := range files {
		if strings.Contains(text, secret) {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	for name, want := range map[string]string{
		"status.yaml": "problems:", "why/shop_web.yaml": "reason: UnknownPool", "configuration.yaml": "backend: announce",
		"objects/services.yaml": "fairlead.io/pool: edge", "objects/pods.yaml": "--log-level=info", "objects/nodes.yaml": "name: n1", "logs/fairlead-controller-1.log": "fake logs",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files[name])
		}
	}
	if pod.Spec.Containers[0].Env[0].Value != secret {
		t.Error("the snapshot itself has changed")
	}
}

// Passwords of BGP peers are in no file, wherever they are written: not in their objects, of
// any version, not in the annotations of Nodes, and not in a log that has one of them. Each kind
// has a file of its own.
func TestBundleHasNoPasswordOfAPeer(t *testing.T) {
	object := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind,
			"metadata": map[string]any{"name": name, "namespace": defaultMetalLBNamespace}, "spec": spec}}
	}
	peer := func(apiVersion, name string, password any) *unstructured.Unstructured {
		return object(apiVersion, "BGPPeer", name, map[string]any{"peerAddress": "192.0.2.1", "password": password, "passwordSecret": map[string]any{"name": "tor"}})
	}
	const newer, older, listed, annotated, first, number = "newer-word", "older-word", "listed-word", "annotated-word", "first-word", "987654321"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: "fairlead-agent-1", Labels: map[string]string{labelName: labelFairlead}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "TOKEN", Value: first}}}},
			Containers:     []corev1.Container{{Env: []corev1.EnvVar{{Name: envPeers, Value: "192.0.2.1:64500:" + listed + ":true,[2001:db8::1]:64501"}}}},
		},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"example.com/bgp-peers-0-bgp-pass": base64.StdEncoding.EncodeToString([]byte(annotated))}}}
	s, err := Of(time.Unix(0, 0), config.Default(), pod, node,
		peer("metallb.io/v1beta2", "newer", newer), peer("metallb.io/v1beta1", "older", older), peer("metallb.io/v1beta2", "number", int64(987654321)),
		object("metallb.io/v1beta1", "BGPAdvertisement", "all", map[string]any{"nodeSelectors": []any{map[string]any{"matchLabels": map[string]any{"rack": "a"}}}}),
		object("metallb.io/v1beta1", "Community", "names", map[string]any{"communities": []any{}}))
	if err != nil {
		t.Fatal(err)
	}
	all := []string{newer, older, listed, annotated, base64.StdEncoding.EncodeToString([]byte(annotated)), first, number}
	if got := redact(strings.Join(all, " and ")+" at 192.0.2.1", s.secrets()); got != strings.Repeat(redacted+" and ", len(all)-1)+redacted+" at 192.0.2.1" {
		t.Errorf("a log says %q", got)
	}
	var out bytes.Buffer
	if missing, err := s.Bundle(t.Context(), fake.NewClientset(pod), &out); err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	files := read(t, out.Bytes())
	for name, text := range files {
		for _, secret := range all {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", name, secret, text)
			}
		}
	}
	for name, wants := range map[string][]string{
		"objects/bgppeers.yaml":          {"name: newer", "name: older", "password: " + redacted, "name: tor", "192.0.2.1"},
		"objects/bgpadvertisements.yaml": {"rack: a"},
		"objects/communities.yaml":       {"name: names"},
		"objects/bfdprofiles.yaml":       {"[]"},
		"objects/endpointslices.yaml":    {"[]"},
	} {
		for _, want := range wants {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s lacks %q:\n%s", name, want, files[name])
			}
		}
	}
	// A short one is not looked for in other texts, but is not in its object either.
	short, err := Of(time.Unix(0, 0), config.Default(), peer("metallb.io/v1beta2", "short", "abc"))
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if _, err := short.Bundle(t.Context(), fake.NewClientset(), &out); err != nil {
		t.Fatal(err)
	}
	if text := read(t, out.Bytes())["objects/bgppeers.yaml"]; strings.Contains(text, "abc") || !strings.Contains(text, "name: short") {
		t.Error(text)
	}
}

// What could not be read is told, and is in the archive.
func TestBundleSaysWhatIsMissing(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: "fairlead-agent-1", Labels: map[string]string{labelName: labelFairlead}}}
	s, err := Of(time.Unix(0, 0), config.Default(), pod)
	if err != nil {
		t.Fatal(err)
	}
	s.Unknown = []string{"cannot list agents"}
	kube := fake.NewClientset(pod)
	kube.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "log", nil, errors.New("no kubelet")
	})
	var out bytes.Buffer
	missing, err := s.Bundle(t.Context(), kube, &out)
	if err != nil || len(missing) != 2 || missing[0] != "cannot list agents" ||
		!strings.HasPrefix(missing[1], "cannot read the log of pod fairlead-system/fairlead-agent-1: ") || !strings.HasSuffix(missing[1], "no kubelet") {
		t.Errorf("%v, %q", err, missing)
	}
	if got := read(t, out.Bytes())["missing.txt"]; got != strings.Join(missing, "\n")+"\n" {
		t.Errorf("missing.txt has %q", got)
	}
	if len(s.Unknown) != 1 {
		t.Errorf("the snapshot itself has changed: %q", s.Unknown)
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"user alice":                                                          "user alice",
		"Authorization: Bearer abc.def-123456":                                "Authorization: REDACTED",
		"token eyJhbGciOiJSUzI1.eyJpc3MiOiJrdW.c":                             "token REDACTED",
		"url https://x:s3cretvalue@example.com":                               "url https://x:REDACTED@example.com",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----": "REDACTED",
	} {
		if got := redact(text, []string{"s3cretvalue"}); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	pods := []corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--password=short", "--password=longer-one", "--token", "another-one", "--key"}}}}}}
	if got := (&Snapshot{Pods: pods, objects: newObjects()}).secrets(); !slices.Equal(got, []string{"another-one", "longer-one"}) {
		t.Errorf("%q", got)
	}
}
