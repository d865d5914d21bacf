package kubedc

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// Two processes of the real binary: only the one that leads uses the database (B19). When
// it is killed, the other one takes over, and heals what was changed meanwhile.
func TestBinaryTakesOver(t *testing.T) {
	t.Parallel()
	s := newStory(t, useRig(t))
	s.installKinds()
	s.clean()
	s.makeProject()
	s.makeNetwork()
	s.runKubeOVN()
	file := t.TempDir() + "/config.yaml"
	write(t, file, "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: \"\", backend: ovn}]\n")
	launch := func(metrics string) *process.Process {
		cmd := exec.Command(tree.Binary(t, "fairlead"), "controller", "--kubeconfig", s.rig.API.Kubeconfig, "--config", file,
			"--leader-elect", "--leader-elect-namespace=kube-system", "--metrics-address", metrics)
		cmd.Env = []string{"OVN_NB_DB=" + s.nb.Endpoint()}
		return process.Start(t, cmd)
	}
	connected := func(metrics string, is int) {
		t.Helper()
		rig.Eventually(t, fmt.Sprintf("%s has connected %d", metrics, is), func() error {
			return (&story{metrics: metrics}).metric([]string{fmt.Sprintf("^fairlead_ovn_connected %d$", is)})
		})
	}
	first, second := rig.FreeAddress(t), rig.FreeAddress(t)
	leader := launch(first)
	connected(first, 1)
	launch(second)
	connected(second, 0)
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shalb-dev", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := s.client.Create(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	served := func() error { return s.service([]string{"shalb-dev/web", "EnsuredLoadBalancer", "168.119.17.52"}) }
	rig.Eventually(t, "the Service is served", served)
	var system corev1.Namespace
	if err := s.client.Get(context.Background(), client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("^shalb-dev-web-tcp,tcp,168.119.17.52:80=,reject=true,.*fairlead.io/cluster=%s ", system.UID)
	if err := s.rows([]string{"1", row}); err != nil {
		t.Error(err)
	}
	connected(second, 0)

	leader.Kill()
	s.nb.Ctl("lb-del", "shalb-dev-web-tcp")
	connected(second, 1)
	rig.Eventually(t, "the other one repairs", func() error { return s.rows([]string{"1", row}) })
	if err := served(); err != nil {
		t.Error(err)
	}
}

// A wrong configuration ends the start with a sentence.
func TestBinaryRefusesWrongEndpoints(t *testing.T) {
	t.Parallel()
	r := useRig(t)
	file := t.TempDir() + "/config.yaml"
	for config, want := range map[string]string{
		`northbound: ["tpc:db:6641"]`: `ovn.northbound[0]: endpoint "tpc:db:6641" is not of the kind unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT`,
		`northbound: ["ssl:db:6641"], ca: /nowhere, certificate: /nowhere, key: /nowhere`: `reach OVN: ovn.ca, ovn.certificate and ovn.key: read CA: open /nowhere: no such file or directory`,
	} {
		write(t, file, "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: \"\", backend: ovn}]\novn: {"+config+"}\n")
		out, err := exec.CommandContext(t.Context(), tree.Binary(t, "fairlead"), "controller", "--kubeconfig", r.API.Kubeconfig, "--config", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s", err, out)
		}
	}
}
