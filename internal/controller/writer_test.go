package controller

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/config"
)

// A few requests have a connection each; many share one, because client-go would open and
// close connections all the time.
func TestWriterConnections(t *testing.T) {
	protocols := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.ProtoMajor
		http.NotFound(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for atOnce, want := range map[int]int{1: 1, maxConnections: 1, maxConnections + 1: 2} {
		base := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		writer, err := newWriter(base, atOnce)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = writer.CoreV1().Events(corev1.NamespaceDefault).Get(t.Context(), "none", metav1.GetOptions{})
		if got := <-protocols; got != want {
			t.Errorf("%d at once: HTTP/%d, want HTTP/%d", atOnce, got, want)
		}
		if base.NextProtos != nil || base.Dial != nil {
			t.Error("the configuration of others was changed")
		}
	}
}

func TestWorkersOfAllBackends(t *testing.T) {
	c := classes{backends: map[config.Backend]*Backend{"one": {Workers: 16}, "two": {Workers: 100}}}
	if got := c.workers(); got != 116 {
		t.Errorf("%d workers", got)
	}
}
