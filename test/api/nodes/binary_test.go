package nodes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// The real binary in the place of cloudscale's own controller manager: with the
// flags of its manifest, and its environment.
func TestInThePlaceOfTheCloudControllerManager(t *testing.T) {
	w := newWorld(t)
	server := w.AddServer("worker-1", "10.1.1.1")
	register(t, "worker-1")
	metrics := rig.FreeAddress(t)
	cmd := exec.Command(tree.Binary(t, "fairlead"), "controller", "--kubeconfig", theRig.API.Kubeconfig, "--metrics-address", metrics,
		"--allow-untagged-cloud", "--v=3", "--concurrent-service-syncs=2", "--cloud-provider=cloudscale", "--cloud-config=/etc/none",
		"--cluster-name=prod", "--leader-elect=true", "--leader-elect-resource-namespace=kube-system", "--leader-elect-lease-duration=15s")
	cmd.Env = []string{"CLOUDSCALE_ACCESS_TOKEN=" + token, "CLOUDSCALE_API_URL=" + w.URL + "/", "CLOUDSCALE_API_TIMEOUT=5"}
	log := process.Start(t, cmd).Log
	initialized(t, "worker-1", server)

	lease, err := theRig.Kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("the lease of cloud controller managers: %v, %v", lease, err)
	}
	rig.Eventually(t, "metrics of the cloud and of the node controllers", func() error {
		body, err := fetch("http://" + metrics + "/metrics")
		if err != nil {
			return err
		}
		for _, want := range []string{
			`fairlead_cloudscale_requests_total{code="200",kind="server",method="get"} `,
			`fairlead_cloudscale_request_seconds_count{kind="server",method="get"} `,
			"node_controller_cloud_provider_taint_removal_delay_seconds_count 1",
			"cloud_node_lifecycle_controller_monitor_nodes_duration_seconds_count ",
			"controller_runtime_reconcile_total",
			"go_goroutines",
		} {
			if !strings.Contains(body, want) {
				return fmt.Errorf("%s is not in %s", want, body)
			}
		}
		return nil
	})
	for _, want := range []string{"--allow-untagged-cloud", "--cloud-config", "--leader-elect-lease-duration", "sand****************************", `"cluster":"prod"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s", want)
		}
	}
	if strings.Contains(log.String(), token) {
		t.Error("the log has the access token")
	}
}

// Without a token there is no cloud.
func TestNoToken(t *testing.T) {
	cmd := exec.Command(tree.Binary(t, "fairlead"), "controller", "--kubeconfig", theRig.API.Kubeconfig, "--config", "/dev/stdin")
	cmd.Env = []string{"PATH=/none"}
	cmd.Stdin = strings.NewReader("apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nnodes: {cloud: cloudscale}\n")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no CLOUDSCALE_ACCESS_TOKEN configured") {
		t.Errorf("%v: %s", err, out)
	}
}

func fetch(url string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s: %s", resp.Status, body)
	}
	return string(body), err
}
