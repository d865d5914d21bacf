package kubevip

import (
	"net/netip"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/notary"
)

// Services may share an address as long as their ports differ. A note of the days when
// one did counts for less than that of the one that still has it, once its ports are
// others: it may have been kept, and put back. The next write notes the new ports.
func TestNoteOfOtherPorts(t *testing.T) {
	b, secrets := Backend{Notary: &notary.Notary{}}, fake.NewClientset().CoreV1().Secrets("ns")
	if _, err := b.Open(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	s := &lb.Service{UID: "a", Annotations: map[string]string{kubevip.AnnotationAddresses: "192.0.2.7", kubevip.AnnotationGiven: "192.0.2.7"},
		LoadBalancerIP: "192.0.2.7", Frontend: lb.Frontend{Ports: []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 80}}}}}
	s.Annotations[kubevip.AnnotationProof] = b.Note(s).Annotations[kubevip.AnnotationProof]
	if h := b.Held(s); h.Evidence != lb.Proven || h.Noted.IsZero() || time.Since(h.Noted) > time.Hour {
		t.Errorf("as noted: %+v", h)
	}
	if again := b.Note(s).Annotations; len(again) > 0 {
		t.Errorf("noted again: %v", again)
	}
	s.Ports[0].Number = 443
	if h := b.Held(s); h.Evidence != lb.Reported || h.Noted.IsZero() || !h.Left {
		t.Errorf("with another port: %+v", h)
	}
	if has, _ := b.Proven(s); len(has) > 0 {
		t.Errorf("with another port, %v is proven", has)
	}
	out := b.serve(s, []lb.Family{lb.IPv4}, lb.Verdict{Reason: lb.Rebuilt(lb.Ready, "", true), Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}, "")
	s.Annotations[kubevip.AnnotationProof] = out.Annotations[kubevip.AnnotationProof]
	if h := b.Held(s); h.Evidence != lb.Proven {
		t.Errorf("noted anew: %+v", h)
	}
}
