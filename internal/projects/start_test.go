package projects

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// A start that cannot reach the API server waits for it, and ends with its context.
func TestStartWithoutAPIServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waited := make(chan struct{})
	log := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey && strings.Contains(a.Value.String(), "the API server is away") {
			close(waited)
		}
		return a
	}}))
	p, err := New(Options{REST: &rest.Config{Host: "http://" + address}, Log: log, Claim: claim, Writes: true})
	if err != nil {
		t.Fatalf("nothing is asked yet: %v", err)
	}
	if _, err := p.View(nil); !errors.Is(err, ErrUnread) {
		t.Errorf("nothing has been read: %v", err)
	}
	ended := make(chan error)
	go func() {
		ended <- p.Run(ctx, func(...types.NamespacedName) { t.Error("nothing is known, and Services are woken") })
	}()
	select {
	case err := <-ended:
		t.Fatalf("ended with %v, and not with its context", err)
	case <-waited:
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// Kinds are known by the names that the API server has for them.
func TestMapper(t *testing.T) {
	m := newMapper()
	for kind, want := range map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Service"):            "v1/services namespace",
		corev1.SchemeGroupVersion.WithKind("Namespace"):          "v1/namespaces root",
		corev1.SchemeGroupVersion.WithKind("Endpoints"):          "v1/endpoints namespace",
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"): "discovery.k8s.io/v1/endpointslices namespace",
		kindEIp:     "kube-dc.com/v1/eips namespace",
		kindFIp:     "kube-dc.com/v1/fips namespace",
		kindProject: "kube-dc.com/v1/projects namespace",
		kindOvnEip:  "kubeovn.io/v1/ovn-eips root",
		kindSubnet:  "kubeovn.io/v1/subnets root",
		kindVpc:     "kubeovn.io/v1/vpcs root",
		kindRule:    "kubeovn.io/v1/ovn-dnat-rules root",
	} {
		found, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
			continue
		}
		r := found.Resource
		if got := r.GroupVersion().String() + "/" + r.Resource + " " + string(found.Scope.Name()); got != want {
			t.Errorf("%s is %s, want %s", kind.Kind, got, want)
		}
	}
}
