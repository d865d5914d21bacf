package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/daemons"
)

// The most calls to create, move and delete a Service: what CloudSigma's own controller needs.
// It deletes with 6, but does not read tags before it writes them, nor the server afterwards:
// what others have changed is lost, and what the cloud has ignored is not found.
const (
	sigmaCreate = 9
	sigmaMove   = 4
	sigmaDelete = 6 + 2
)

// sigmaServices is how many Services come at once, and are looked at when nothing
// happens.
const sigmaServices = 100

// sigmaInFlight is how many of them the controller works on at the same time.
const sigmaInFlight = 100

// sigmaApart is the time between two changes: what the controller has read for one is too
// old for the next.
const sigmaApart = 3 * time.Second

// sigmaLatencies are how long the cloud takes to answer, one after the other.
var sigmaLatencies = []time.Duration{0, 500 * time.Millisecond}

// sigma: what Services cost in calls of CloudSigma's API, and how fast many of them
// are served.
func sigma(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.sweepNodes(ctx); err != nil {
		return nil, err
	}
	for _, latency := range sigmaLatencies {
		more, err := c.sigmaCalls(ctx, s, latency)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	for _, latency := range sigmaLatencies {
		more, err := c.sigmaAtOnce(ctx, s, latency)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	more, err := c.sigmaIdle(ctx, s)
	return append(rows, more...), err
}

// account is one at CloudSigma, whose servers are the nodes.
type account struct {
	*cloudsigma.Simulator
	cluster *cluster
	url     string
	server  *http.Server
	process *daemons.Process  // the controller; nil if there is none
	servers map[string]string // UUIDs by node
}

const sigmaCluster = "bench" // in tags

// openAccount has three nodes with agents. What each call takes is its latency.
func (c *cluster) openAccount(ctx context.Context, latency time.Duration) (*account, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &account{Simulator: cloudsigma.New(cloudsigma.Options{}), cluster: c, url: "http://" + l.Addr().String(), servers: map[string]string{}}
	a.server = &http.Server{Handler: a.Simulator, ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(l) }()
	for i := range sigmaServices + 2 {
		a.Subscribe(sigmaAddress(i))
	}
	for i := range 3 {
		if err := a.addNode(ctx, fmt.Sprintf("node-%d", i+1)); err != nil {
			return nil, err
		}
	}
	if latency > 0 {
		a.Fail(cloudsigma.Fault{Latency: latency, Times: -1})
	}
	return a, nil
}

func sigmaAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}) }

// addNode makes a server, the Node that it is, and its agent.
func (a *account) addNode(ctx context.Context, name string) error {
	server, err := a.AddServer(cloudsigma.NewServer{Name: name, NICs: []cloudsigma.NewNIC{{Mode: "dhcp", Addr4: "*"}}})
	if err != nil {
		return err
	}
	a.servers[name] = server.UUID
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "cloudsigma://" + server.UUID}}
	if _, err := a.cluster.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := a.cluster.client.Create(ctx, agent); err != nil {
		return err
	}
	agent.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
	return errors.Join(a.cluster.client.Status().Update(ctx, agent), a.ready(ctx, name, true))
}

// ready sets whether a kubelet is heard of.
func (a *account) ready(ctx context.Context, node string, ready bool) error {
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionUnknown}[ready]
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	_, err := a.cluster.kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// control starts a controller, and returns when it has served a Service.
func (a *account) control(ctx context.Context, s settings, args ...string) (err error) {
	cmd := exec.Command(s.binary, append([]string{"controller", "--kubeconfig", a.cluster.api.Kubeconfig, "--cluster-name", sigmaCluster, "--config", "/dev/stdin"}, args...)...)
	cmd.Stdin = strings.NewReader("apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: \"\", backend: cloudsigma}]\n")
	cmd.Env = append(os.Environ(), "CLOUDSIGMA_REGION=zrh", "CLOUDSIGMA_TOKEN="+a.Token(), "CLOUDSIGMA_API_ENDPOINT="+a.url)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if a.process, err = daemons.Launch(cmd, ""); err != nil {
		return err
	}
	if err := a.create(ctx, "first"); err != nil {
		return err
	}
	return a.served(ctx, "first")
}

// close ends the controller and takes everything away.
func (a *account) close(ctx context.Context, err *error) {
	if a.process == nil {
		*err = errors.Join(*err, a.leaveBare(ctx))
	}
	*err = errors.Join(*err, a.cluster.remove(ctx))
	if a.process != nil {
		*err = errors.Join(*err, poll(ctx, "all Services are gone", pollEvery, func() (bool, error) {
			list, err := a.cluster.kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return err == nil && len(list.Items) == 0, err
		}))
		a.process.Stop(err)
	}
	*err = errors.Join(*err, a.server.Close(), a.cluster.sweepNodes(ctx))
	a.Close()
}

// sweepNodes removes all nodes and agents.
func (c *cluster) sweepNodes(ctx context.Context) error {
	return errors.Join(c.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		c.client.DeleteAllOf(ctx, &v1alpha1.Agent{}))
}

func (a *account) create(ctx context.Context, name string) error {
	_, err := a.cluster.kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	return err
}

// served waits until a Service has an address.
func (a *account) served(ctx context.Context, name string) error {
	return poll(ctx, name+" is served", 5*time.Millisecond, func() (bool, error) {
		service, err := a.cluster.kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && published(service), err
	})
}

// allServed waits until all Services have an address.
func (a *account) allServed(ctx context.Context) error {
	return poll(ctx, "all Services are served", 10*time.Millisecond, func() (bool, error) {
		list, err := a.cluster.kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, func(s corev1.Service) bool { return !published(&s) }), nil
	})
}

// carrier is the node that a Service names as that of its address.
func (a *account) carrier(ctx context.Context, name string) (string, error) {
	service, err := a.cluster.kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, nodes := range kubeapi.Service(service).Carriers {
		return nodes[0], nil
	}
	return "", nil
}

// sigmaCalls counts the calls of what happens to one Service beside another.
func (c *cluster) sigmaCalls(ctx context.Context, s settings, latency time.Duration) (rows []Row, err error) {
	a, err := c.openAccount(ctx, latency)
	if err != nil {
		return nil, err
	}
	defer a.close(ctx, &err)
	if err := a.control(ctx, s); err != nil {
		return nil, err
	}
	calls, seconds := map[string][]float64{}, map[string][]float64{}
	measure := func(what string, begin, done func() error) error {
		if err := pause(ctx, sigmaApart); err != nil {
			return err
		}
		a.ResetLog()
		began := time.Now()
		if err := begin(); err != nil {
			return err
		}
		if err := done(); err != nil {
			return err
		}
		seconds[what] = append(seconds[what], time.Since(began).Seconds())
		n := 0
		for _, r := range a.Log() { // without the look at all servers that may be due
			if r.Path != "/api/2.0/servers/detail/" || strings.Contains(r.Query, "uuid=") {
				n++
			}
		}
		calls[what] = append(calls[what], float64(n))
		return nil
	}
	services := c.kube.CoreV1().Services(namespace)
	for range s.rounds {
		if err := measure("create", func() error { return a.create(ctx, "web") }, func() error { return a.served(ctx, "web") }); err != nil {
			return nil, err
		}
		from, err := a.carrier(ctx, "web")
		if err != nil {
			return nil, err
		}
		err = measure("move", func() error { return a.ready(ctx, from, false) }, func() error {
			return poll(ctx, "it is on another node", 5*time.Millisecond, func() (bool, error) {
				to, err := a.carrier(ctx, "web")
				return err == nil && to != from && to != "", err
			})
		})
		if err == nil {
			err = a.ready(ctx, from, true)
		}
		if err == nil {
			err = measure("delete", func() error { return services.Delete(ctx, "web", metav1.DeleteOptions{}) }, func() error {
				return poll(ctx, "it is gone", 5*time.Millisecond, func() (bool, error) {
					_, err := services.Get(ctx, "web", metav1.GetOptions{})
					return err != nil, nil
				})
			})
		}
		if err != nil {
			return nil, err
		}
	}
	in := fmt.Sprintf(", %d ms per call, of %d times the median", latency.Milliseconds(), s.rounds)
	for _, w := range []struct {
		what string
		most float64
	}{{"create", sigmaCreate}, {"move", sigmaMove}, {"delete", sigmaDelete}} {
		rows = append(rows, info("calls to "+w.what+" a Service"+in, median(calls[w.what]), "").atMost(w.most), info("time to "+w.what+" it"+in, median(seconds[w.what]), "s"))
	}
	return rows, nil
}

// sigmaAtOnce compares the controller with a bare client while many Services come at
// once.
func (c *cluster) sigmaAtOnce(ctx context.Context, s settings, latency time.Duration) (rows []Row, err error) {
	sides := []string{"Fairlead", "bare client"}
	seconds, calls := make([][]float64, 2), make([][]float64, 2)
	err = inTurns(s.rounds, 2, func(i int) (err error) {
		a, err := c.openAccount(ctx, latency)
		if err != nil {
			return err
		}
		defer a.close(ctx, &err)
		if i == 0 {
			err = a.control(ctx, s)
		} else {
			// What the first Service of the other side has left.
			a.AddTag("cluster:" + sigmaCluster)
			a.AddTag("managed-by:cloudsigma-ccm")
		}
		if err != nil {
			return err
		}
		a.ResetLog()
		began := time.Now()
		err = concurrently(ctx, sigmaServices, inFlight, func(i int) error { return a.create(ctx, fmt.Sprintf("web-%05d", i)) })
		if err == nil && i == 1 {
			err = a.serveBare(ctx)
		}
		if err == nil {
			err = a.allServed(ctx)
		}
		if err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		seconds[i] = append(seconds[i], took)
		calls[i] = append(calls[i], float64(len(a.Log())))
		progress("  %d Services, %s, %s: %.2f s, %d calls", sigmaServices, latency, sides[i], took, len(a.Log()))
		return nil
	})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d Services at once, %d ms per call", sigmaServices, latency.Milliseconds())
	ours, bare := median(seconds[0]), median(seconds[1])
	rows = append(rows, info(fmt.Sprintf("%s: Services per second, Fairlead to bare client, of %d times the medians", what, s.rounds), bare/ours, "×").atLeast(0.9))
	for i, side := range sides {
		rows = append(rows, info(what+": time, "+side, median(seconds[i]), "s"), info(what+": calls, "+side, median(calls[i]), ""))
	}
	return rows, nil
}

// sigmaIdle counts the calls of a resync while nothing happens.
func (c *cluster) sigmaIdle(ctx context.Context, s settings) (rows []Row, err error) {
	a, err := c.openAccount(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer a.close(ctx, &err)
	if err := a.control(ctx, s, "--cloud-resync", "75s"); err != nil {
		return nil, err
	}
	if err := concurrently(ctx, sigmaServices, inFlight, func(i int) error { return a.create(ctx, fmt.Sprintf("web-%05d", i)) }); err != nil {
		return nil, err
	}
	if err := a.allServed(ctx); err != nil {
		return nil, err
	}
	addresses := cloudsigma.Call{Method: http.MethodGet, Kind: cloudsigma.IPs}
	var counts map[cloudsigma.Call]int
	for range 2 { // the first list of addresses begins it, the next one ends it
		err := poll(ctx, "a list of addresses", 20*time.Millisecond, func() (bool, error) {
			counts = a.Counts()
			return counts[addresses] > 0, nil
		})
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, 10*time.Second); err != nil { // what belongs to it
			return nil, err
		}
		counts = a.Counts()
		a.ResetLog()
	}
	what := fmt.Sprintf("idle resync of %d Services, each minute: ", sigmaServices)
	others := 0
	for call, n := range counts {
		if call.Method != http.MethodGet || call.Kind != cloudsigma.IPs && call.Kind != cloudsigma.Tags && call.Kind != cloudsigma.Servers {
			others += n
		}
	}
	return []Row{
		info(what+"lists of addresses", float64(counts[addresses]), "").exactly(1),
		info(what+"lists of tags", float64(counts[cloudsigma.Call{Method: http.MethodGet, Kind: cloudsigma.Tags}]), "").exactly(1),
		info(what+"lists of servers, whose state is read every 10 s", float64(counts[cloudsigma.Call{Method: http.MethodGet, Kind: cloudsigma.Servers}]), "").atMost(7),
		info(what+"other calls", float64(others), "").exactly(0),
	}, nil
}
