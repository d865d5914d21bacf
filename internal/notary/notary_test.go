package notary

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func addrs(texts ...string) (out []netip.Addr) {
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// A note counts for its object and its addresses, and for nothing else.
func TestNotes(t *testing.T) {
	n := &Notary{key: []byte("0123456789abcdef0123456789abcdef")}
	noon := time.UnixMilli(1_772_366_400_123)
	both := addrs("192.0.2.7", "2001:db8::7")
	web := []string{"TCP/80", "TCP/443"}
	note := n.Sign("a", both, web, noon)
	if since, same, ok := n.Check("a", addrs("2001:db8::7", "192.0.2.7"), []string{"TCP/443", "TCP/80"}, note); !ok || !same || !since.Equal(noon) {
		t.Errorf("%q: %v, since %v, with the same ports: %v", note, ok, since, same)
	}
	if since, same, ok := n.Check("a", both, []string{"TCP/80"}, note); !ok || same || !since.Equal(noon) {
		t.Errorf("%q, with other ports: %v, since %v, the same: %v", note, ok, since, same)
	}
	other := &Notary{key: []byte("0123456789abcdef0123456789abcdeX")}
	for name, test := range map[string]struct {
		n         *Notary
		uid       string
		addresses []netip.Addr
		note      string
	}{
		"another object":   {n, "b", both, note},
		"another address":  {n, "a", addrs("192.0.2.8", "2001:db8::7"), note},
		"one address less": {n, "a", addrs("192.0.2.7"), note},
		"another key":      {other, "a", both, note},
		"no key":           {&Notary{}, "a", both, note},
		"no notary":        {nil, "a", both, note},
		"another time":     {n, "a", both, "9" + note},
		"no addresses":     {n, "a", nil, n.Sign("a", nil, web, noon)},
		"nothing":          {n, "a", both, ""},
		"no MAC":           {n, "a", both, "1772366400123.."},
		"longer":           {n, "a", both, note + "A"},
	} {
		if _, _, ok := test.n.Check(types.UID(test.uid), test.addresses, web, test.note); ok {
			t.Errorf("%s: believed", name)
		}
	}
}

// The first start lasts until it is finished, whoever finishes it, and does not come
// again.
func TestFirstStart(t *testing.T) {
	ctx := t.Context()
	for name, before := range map[string]*corev1.Secret{
		"no Secret":       nil,
		"an empty Secret": {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Secret}},
	} {
		kube := fake.NewClientset()
		if before != nil {
			kube = fake.NewClientset(before)
		}
		secrets := kube.CoreV1().Secrets("ns")
		if err := (&Notary{}).Read(ctx, secrets); err != nil {
			t.Errorf("%s: reading makes no key, and says %v", name, err)
		}
		var first, second, third Notary
		if err := first.Open(ctx, secrets); err != nil || !first.First() {
			t.Errorf("%s: %v, first: %v", name, err, first.First())
		}
		note := first.Sign("a", addrs("192.0.2.7"), nil, time.Now())
		if err := second.Open(ctx, secrets); err != nil || !second.First() {
			t.Errorf("%s: after a crash, %v, first: %v", name, err, second.First())
		}
		if _, _, ok := second.Check("a", addrs("192.0.2.7"), nil, note); !ok {
			t.Errorf("%s: what the first one signed is not believed", name)
		}
		if err := second.Close(ctx, secrets); err != nil || second.First() {
			t.Errorf("%s: closing: %v", name, err)
		}
		if err := third.Open(ctx, secrets); err != nil || third.First() {
			t.Errorf("%s: it is the first start again: %v", name, err)
		}
	}
}

// A first start must not be declared finished for a key that others have replaced.
func TestCloseWithAnotherKey(t *testing.T) {
	secrets := fake.NewClientset().CoreV1().Secrets("ns")
	var n, next Notary
	if err := n.Open(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), Secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := next.Open(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context(), secrets); err == nil {
		t.Error("the import with the old key ends the one with the new")
	}
}

// Who may not make the Secret is told how to get it back, and removing its data makes a
// new key: the manifests give no right to make Secrets.
func TestSecretThatMayNotBeMade(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
	})
	secrets := kube.CoreV1().Secrets("ns")
	var n Notary
	if err := n.Open(t.Context(), secrets); err == nil || !strings.Contains(err.Error(), "install it again") {
		t.Errorf("the Secret is missing: %v", err)
	}
	bad := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Secret}, Data: map[string][]byte{fieldKey: []byte("short"), fieldDone: []byte("true")}}
	if err := kube.Tracker().Add(bad); err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context(), secrets); err == nil || !strings.Contains(err.Error(), "remove the Secret's data") {
		t.Errorf("a short key: %v", err)
	}
	if _, err := secrets.Patch(t.Context(), Secret, types.JSONPatchType, []byte(`[{"op": "remove", "path": "/data"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context(), secrets); err != nil || !n.First() {
		t.Errorf("without data: %v, first: %v", err, n.First())
	}
}

func FuzzCheck(f *testing.F) {
	n := &Notary{key: []byte("0123456789abcdef0123456789abcdef")}
	real := n.Sign("a", addrs("192.0.2.7"), nil, time.UnixMilli(1_772_366_400_123))
	f.Add(real)
	f.Add("1.x")
	f.Add(".")
	f.Fuzz(func(t *testing.T, note string) {
		if _, _, ok := n.Check("a", addrs("192.0.2.7"), nil, note); ok != (note == real) {
			t.Errorf("%q: %v", note, ok)
		}
	})
}
