package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

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
	if err := s.Bundle(t.Context(), fake.NewClientset(pod), &out); err != nil {
		t.Fatal(err)
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
	if got := secretsOf(pods); !slices.Equal(got, []string{"another-one", "longer-one"}) {
		t.Errorf("%q", got)
	}
}
