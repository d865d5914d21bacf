package cloudsigma

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/rig"
)

// announce has the agent of a node report that it announces an address of a Service.
func (w *world) announce(node, address, service string) {
	w.t.Helper()
	rig.Eventually(w.t, "agent of "+node+" reports", func() error {
		var a v1alpha1.Agent
		if err := w.rig.Client.Get(w.t.Context(), types.NamespacedName{Name: node}, &a); err != nil {
			return err
		}
		a.Status.Announced++
		a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: address, Services: []string{service}, Interface: "ens3", Protocol: "ARP", Since: metav1.Now()})
		return w.rig.Client.Status().Update(w.t.Context(), &a)
	})
}

// Where nodes are servers of CloudSigma, addresses of class announce need a NIC in mode
// manual, and a subscription. Services are told what is missing.
func TestAnnouncedAtCloudSigma(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	w.addNode("manual-1", "manual")
	well, unsubscribed, dhcp := w.create("well"), w.create("unsubscribed"), w.create("dhcp")
	w.announce("manual-1", "192.0.2.10", "default/well")
	w.announce("manual-1", "192.0.2.99", "default/unsubscribed")
	w.announce("node-1", "192.0.2.10", "default/dhcp")
	config := filepath.Join(t.TempDir(), "fairlead.yaml")
	text := "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: \"\", backend: announce}]\nnodes: {cloud: cloudsigma}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.launch("--config", config)
	w.told(unsubscribed, "AddressNotSubscribed", "manual-1", "192.0.2.99", "Subscribe")
	w.told(dhcp, "CardNotManual", "node-1", "192.0.2.10", "mode dhcp")
	events, err := w.kube.CoreV1().Events(well.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=well"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason == "AddressNotSubscribed" || e.Reason == "CardNotManual" {
			t.Errorf("%s: %s", e.Reason, e.Message)
		}
	}
	if len(w.state()) > 0 {
		t.Errorf("the cloud has %v", w.state())
	}
	p.Kill()
}
