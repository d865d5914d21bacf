package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/sandbox"
)

var api *sandbox.API

// orphan is the environment variable that makes this test program one that
// starts a server and is killed: see TestServerEndsWithItsParent.
const orphan = "FAIRLEAD_SANDBOX_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphan) != "" {
		started, err := sandbox.StartAPI(context.Background(), sandbox.Options{NoControllers: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(started.Kubeconfig)
		select {}
	}
	os.Exit(sandbox.TestMain(m, sandbox.Options{Audit: true, Scheduler: true}, &api))
}

func newClient(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config := api.RESTConfig()
	config.UserAgent = "test"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func loadBalancer(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}
}

// eventually waits until the condition holds and fails the test with its last
// error otherwise.
func eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The module file that FAIRLEAD_KUBERNETES chooses says which version that is.
func TestServerHasTheChosenVersion(t *testing.T) {
	file := "go.mod"
	if minor := os.Getenv("FAIRLEAD_KUBERNETES"); minor != "" {
		file = minor + ".mod"
	}
	versions, err := os.ReadFile(filepath.Join("../kube", file))
	if err != nil {
		t.Fatal(err)
	}
	server, err := newClient(t).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if want := "require k8s.io/kubernetes " + server.GitVersion + "\n"; !strings.Contains(string(versions), want) {
		t.Errorf("the server is %s, but kube/%s does not require it", server.GitVersion, file)
	}
}

func TestUnknownVersion(t *testing.T) {
	t.Setenv("FAIRLEAD_KUBERNETES", "1.2")
	path, err := sandbox.KubeBinary(t.Context(), io.Discard)
	if err == nil || !regexp.MustCompile(`FAIRLEAD_KUBERNETES is "1\.2", but there is no .*kube/1\.2\.mod`).MatchString(err.Error()) {
		t.Errorf("got %q and error %v, want the missing file", path, err)
	}
}

func TestDataSurvivesKill(t *testing.T) {
	services := newClient(t).CoreV1().Services("default")
	created, err := services.Create(t.Context(), loadBalancer("survivor"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := api.RESTConfig().Host
	if err := api.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Get(t.Context(), "survivor", metav1.GetOptions{}); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := api.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := api.RESTConfig().Host; after != before {
		t.Errorf("server moved from %s to %s", before, after)
	}
	got, err := services.Get(t.Context(), "survivor", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created, got); diff != "" {
		t.Errorf("Service changed (-before +after):\n%s", diff)
	}
}

func TestWritesAreCounted(t *testing.T) {
	services := newClient(t).CoreV1().Services("default")
	created, err := services.Create(t.Context(), loadBalancer("counted"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{"192.0.2.1", "192.0.2.2"} {
		created.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		if created, err = services.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[sandbox.Write]int{
		{Verb: "create", Resource: "services", Namespace: "default", Name: "counted", UserAgent: "test", Code: 201, User: "admin"}:                        1,
		{Verb: "update", Resource: "services", Subresource: "status", Namespace: "default", Name: "counted", UserAgent: "test", Code: 200, User: "admin"}: 2,
	}
	eventually(t, func(context.Context) error {
		counts, err := api.WriteCounts()
		if err != nil {
			return err
		}
		got := make(map[sandbox.Write]int)
		for w, n := range counts {
			if w.Resource == "services" && w.Name == "counted" {
				got[w] = n
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New("writes (-want +got):\n" + diff)
		}
		return nil
	})
}

// The controller manager makes the EndpointSlice, the scheduler finds no node.
func TestControllersAndSchedulerRun(t *testing.T) {
	client := newClient(t)
	if _, err := client.CoreV1().Services("default").Create(t.Context(), loadBalancer("sliced"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		slices, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=sliced"})
		if err == nil && len(slices.Items) == 0 {
			err = errors.New("the Service has no EndpointSlice")
		}
		return err
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "homeless"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	eventually(t, func(ctx context.Context) error { // until it has a service account
		_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	eventually(t, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "homeless", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return errors.New("the scheduler has not looked at the pod")
	})
}

func TestStopRemovesEverything(t *testing.T) {
	second, err := sandbox.StartAPI(t.Context(), sandbox.Options{NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(second.Kubeconfig)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory is left behind: %v", err)
	}
}

// A test that is killed cannot clean up: the server does.
func TestServerEndsWithItsParent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), orphan+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = strings.TrimSpace(kubeconfig)
	if _, err := os.Stat(kubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the parent was not killed")
	}
	eventually(t, func(context.Context) error {
		if _, err := os.Stat(filepath.Dir(kubeconfig)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is left behind: %w", filepath.Dir(kubeconfig), err)
		}
		return nil
	})
}

func TestErrorShowsTheLog(t *testing.T) {
	_, err := sandbox.StartAPI(t.Context(), sandbox.Options{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !regexp.MustCompile(`(?s)last lines of .*unknown flag: --no-such-flag`).MatchString(err.Error()) {
		t.Errorf("got error %v, want the last lines of the log", err)
	}
}
