package cloudsigma

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox/cloudsigma"
)

// get asks the cloud as the document's curl does.
func (w *world) get(path string) map[string]any {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/api/2.0/"+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token())
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		w.t.Fatalf("%s: %v: %s", path, err, body)
	}
	return out
}

// put changes an object as somebody else might.
func (w *world) put(path string, object map[string]any) {
	w.t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, w.url+"/api/2.0/"+path, strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token())
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("PUT %s: %s", path, resp.Status)
	}
}

// A server keeps all that it has through a create, a move and a delete: its first card
// with its mode, its password, and fields that we have never heard of. The attached card
// is the last one of .nics, and the tags lead to the address.
func TestServersKeepWhatTheyHave(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	before := map[string]map[string]any{}
	for node, id := range w.servers {
		s := w.get("servers/" + id + "/")
		s["meta"], s["x_of_tomorrow"] = map[string]any{"owner": "me", "node": node}, []any{1.0, map[string]any{"a": nil}}
		w.put("servers/"+id+"/", s)
		before[node] = w.get("servers/" + id + "/")
	}
	w.start()
	web := w.create("web")
	w.service(web, "is served", on("192.0.2.10", "node-1"))
	nics := w.get("servers/" + w.servers["node-1"] + "/")["nics"].([]any)
	conf := nics[len(nics)-1].(map[string]any)["ip_v4_conf"].(map[string]any)
	if len(nics) != 2 || conf["conf"] != "static" || conf["ip"].(map[string]any)["uuid"] != "192.0.2.10" {
		t.Errorf(".nics is %v", nics)
	}
	for _, tag := range w.Tags() {
		var ips []string
		for _, o := range w.get("tags/" + tag.UUID + "/ips/")["objects"].([]any) {
			ips = append(ips, o.(map[string]any)["uuid"].(string))
		}
		if !slices.Equal(ips, []string{"192.0.2.10"}) {
			t.Errorf("tag %s leads to %v", tag.Name, ips)
		}
	}
	w.ready("node-1", false)
	w.service(web, "moved", on("192.0.2.10", "node-2"))
	w.delete(web)
	w.has("all is gone")
	for node, id := range w.servers {
		if after := w.get("servers/" + id + "/"); !reflect.DeepEqual(before[node], after) {
			t.Errorf("%s was\n%v\nand is\n%v", node, before[node], after)
		}
	}
}

// Whatever a status or a tag says: the first card of a node is its own.
func TestOwnCardStays(t *testing.T) {
	w := newWorld(t, 2, cloudsigma.Knobs{})
	s, err := w.AddServer(cloudsigma.NewServer{Name: "a-static", NICs: []cloudsigma.NewNIC{{Mode: "static", Addr4: "192.0.2.50"}}})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a-static"}, Spec: corev1.NodeSpec{ProviderID: "cloudsigma://" + s.UUID}}
	if _, err := w.kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.AddTag("cluster:prod", "192.0.2.50")
	w.AddTag("service:default-old", "192.0.2.50")
	old := w.create("old")
	old.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.50"}} // another program did
	if _, err := w.kube.CoreV1().Services("default").UpdateStatus(t.Context(), old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.service(old, "says whose it is", says("AddressTaken", "192.0.2.50", `"a-static"`, "its own"))
	w.service(w.create("web"), "is served", on("192.0.2.10", "node-1"))
	w.delete(old)
	w.has("the node has its card", append(claimed("192.0.2.10", "default-web", "node-1"), "NIC a-static 192.0.2.50")...)
}

// A dynamic address is only given on request, and warns.
func TestDynamic(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{Unowned: "accept"})
	w.AddDynamic(netip.MustParseAddr("192.0.2.5"))
	w.start()
	w.service(w.create("plain"), "is served", on("192.0.2.10", "node-1"))
	web := w.create("web", annotated("cloudsigma.com/ip-pool", "dynamic"))
	w.service(web, "is served", on("192.0.2.5", "node-2"))
	w.told(web, "DynamicAddress", "192.0.2.5", "outside")
}

// Nothing that the program shows has a secret, although the cloud repeats what it was
// sent.
func TestSecretsAreNotShown(t *testing.T) {
	w := newWorld(t, 2, cloudsigma.Knobs{})
	p := w.launch("--log-level=debug")
	end := w.Fail(cloudsigma.Fault{Method: http.MethodPut, Kind: cloudsigma.Servers, Times: -1, Status: http.StatusBadRequest,
		Body: []map[string]string{{"error_type": "validation", "error_message": "Bearer " + w.Token() + ` "vnc_password": "s3cret"`, "error_point": "nics"}}})
	web := w.create("web")
	w.service(web, "says so", says("AttachRefused", "nics"))
	w.told(web, "AttachRefused", "nics")
	end()
	w.service(web, "is served", on("192.0.2.10", "node-1"))
	shown := map[string]string{"the log": p.Log.String()}
	events, err := w.kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		shown["event "+e.Reason] += e.Message
	}
	shown["the Service"] = fmt.Sprint(w.service(web, "is there"))
	for where, text := range shown {
		for _, secret := range []string{w.Token(), "s3cret"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s", where, secret)
			}
		}
	}
	p.Kill()
}

// A pod of somebody else's has the name: that is told, and the pod is left alone.
func TestPodOfAnother(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	pods := w.kube.CoreV1().Pods(metav1.NamespaceSystem)
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName}, Spec: corev1.PodSpec{NodeName: "node-3", Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	other, err := pods.Create(t.Context(), other, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	remove := func() {
		_ = pods.Delete(t.Context(), podName, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &other.UID}})
	}
	defer remove()
	p := w.launch("--pod-image", podImage)
	web := w.create("web")
	w.service(web, "says so", says("SyncLoadBalancerFailed", podName, "app=cloudsigma-lb-ip"))
	if got, err := pods.Get(t.Context(), podName, metav1.GetOptions{}); err != nil || got.UID != other.UID {
		t.Errorf("%v, %v", got, err)
	}
	remove()
	w.service(web, "is served", on("192.0.2.10", "node-1"))
	w.pod("there is a pod", "node-1", other.UID)
	w.delete(web)
	p.Kill()
}
