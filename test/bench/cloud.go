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

	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/daemons"
)

// What cloudscale's own controller (1.3.0) needed of the same cloud.
const (
	theirCreate, theirCreateTime = 71, 18.0
	theirNode                    = 27
	theirPort, theirPortTime     = 34, 12.0
	their20, their20Time         = 1564, 190.0
)

// cloud: what Services cost in calls of a cloud's API, and how long they take.
func cloud(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	one, err := c.oneService(ctx, s)
	if err != nil {
		return nil, err
	}
	rows = append(rows, one...)
	for _, n := range []int{20, 100} {
		more, err := c.atOnce(ctx, s, n, cloudscale.Options{Creating: time.Second, Changing: -1})
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
		if more, err = c.atOnce(ctx, s, n, cloudscale.Options{Creating: time.Second, Changing: time.Second, Busy: cloudscale.BusyWaits}); err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// site is a cloud with three servers that are nodes, and a controller.
type site struct {
	*cloudscale.Simulator
	cluster *cluster
	subnet  string
	server  *http.Server
	process *daemons.Process
}

func (c *cluster) openSite(ctx context.Context, s settings, o cloudscale.Options, args ...string) (*site, error) {
	const token = "sandboxtokensandboxtokensandbox1"
	o.Token = token
	o.Public = map[string][]netip.Prefix{"rma1": {netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("2001:db8:2::/64")}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &site{Simulator: cloudscale.New(o), cluster: c}
	w.server = &http.Server{Handler: w.Simulator, ReadHeaderTimeout: time.Minute}
	go func() { _ = w.server.Serve(l) }()
	network := w.AddNetwork(cloudscale.Network{Name: "lan", Zone: "rma1"})
	w.subnet = w.AddSubnet(cloudscale.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.1.0.0/16")}).UUID
	for i := range 3 {
		if err := w.addNode(ctx, i+1); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(s.binary, append([]string{"controller", "--kubeconfig", c.api.Kubeconfig, "--cluster-name", "bench", "--config", "/dev/stdin"}, args...)...)
	cmd.Stdin = strings.NewReader("apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: \"\", backend: cloudscale}]\n")
	cmd.Env = append(os.Environ(), "CLOUDSCALE_ACCESS_TOKEN="+token, "CLOUDSCALE_API_URL=http://"+l.Addr().String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.process, err = daemons.Launch(cmd, "")
	return w, err
}

// close ends the controller and takes away nodes.
func (w *site) close(ctx context.Context, err *error) {
	w.process.Stop(err)
	*err = errors.Join(*err, w.server.Close(), w.cluster.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.Close()
}

func (w *site) addNode(ctx context.Context, i int) error {
	server := w.AddNode(fmt.Sprintf("node-%d", i), "rma1", w.subnet, netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}))
	_, err := w.cluster.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: server.Name}, Spec: corev1.NodeSpec{ProviderID: "cloudscale://" + server.UUID}}, metav1.CreateOptions{})
	return err
}

func (w *site) create(ctx context.Context, name string) error {
	_, err := w.cluster.kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80}, {Name: "https", Port: 443},
		}}}, metav1.CreateOptions{})
	return err
}

func (w *site) calls() (all, writes int) {
	for _, r := range w.Log() {
		if all++; r.Method != http.MethodGet {
			writes++
		}
	}
	return all, writes
}

// served waits until all Services say that they are.
func (w *site) served(ctx context.Context) error {
	return poll(ctx, "all Services are served", 10*time.Millisecond, func() (bool, error) {
		list, err := w.cluster.kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		for _, s := range list.Items {
			if !slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == kubeapi.ConditionReady && c.Status == metav1.ConditionTrue
			}) {
				return false, nil
			}
		}
		return len(list.Items) > 0, nil
	})
}

// measure counts the calls of something, and the seconds until it is done.
func (w *site) measure(ctx context.Context, begin func() error, done func() bool) (calls, writes int, seconds float64, err error) {
	w.ResetLog()
	began := time.Now()
	if err := begin(); err != nil {
		return 0, 0, 0, err
	}
	err = poll(ctx, "the cloud is as it should be", 5*time.Millisecond, func() (bool, error) { return done(), nil })
	seconds = time.Since(began).Seconds()
	if err == nil {
		err = pause(ctx, time.Second) // whoever looks again would be counted
	}
	calls, writes = w.calls()
	return calls, writes, seconds, err
}

func (c *cluster) oneService(ctx context.Context, s settings) (rows []Row, err error) {
	w, err := c.openSite(ctx, s, cloudscale.Options{Creating: time.Second, Changing: -1})
	if err != nil {
		return nil, err
	}
	defer w.close(ctx, &err)
	services := c.kube.CoreV1().Services(namespace)
	has := func(listener string) func() bool {
		return func() bool {
			names := ""
			for _, l := range w.Listeners() {
				names += l.Name + " "
			}
			return len(w.Listeners()) == 2 && strings.Contains(names, listener)
		}
	}
	calls, writes, took, err := w.measure(ctx, func() error { return errors.Join(w.create(ctx, "web"), w.served(ctx)) }, has("tcp/443"))
	if err != nil {
		return nil, err
	}
	rows = append(rows,
		info("calls to create a Service (2 ports, 3 nodes), the first of all", float64(calls), "").below(theirCreate),
		info("writes among them: one for each object", float64(writes), "").exactly(13),
		info("time to create it", took, "s").below(theirCreateTime))
	bare, stop := w.watchMembers()
	calls, _, _, err = w.measure(ctx, func() error { return w.addNode(ctx, 4) }, func() bool { return len(w.Members("")) == 8 })
	if err != nil {
		return nil, err
	}
	rows = append(rows, info("calls for an added node", float64(calls), "").below(theirNode))
	calls, _, took, err = w.measure(ctx, func() error {
		_, err := services.Patch(ctx, "web", types.StrategicMergePatchType, []byte(`{"spec":{"ports":[{"name":"https","port":8443},{"$patch":"delete","port":443}]}}`), metav1.PatchOptions{})
		return err
	}, has("tcp/8443"))
	if err != nil {
		return nil, err
	}
	rows = append(rows, info("calls for a changed port", float64(calls), "").below(theirPort), info("time for it", took, "s").below(theirPortTime))
	// A node goes: its members are drained first.
	if err := c.kube.CoreV1().Nodes().Delete(ctx, "node-1", metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	if err := poll(ctx, "its members are gone", 20*time.Millisecond, func() (bool, error) { return len(w.Members("")) == 6, nil }); err != nil {
		return nil, err
	}
	stop()
	rows = append(rows, info("time that a port is without members while nodes come and go", bare().Seconds(), "s").exactly(0))
	calls, _, _, err = w.measure(ctx, func() error { return services.Delete(ctx, "web", metav1.DeleteOptions{}) }, func() bool { return len(w.LoadBalancers()) == 0 })
	return append(rows, info("calls to delete a Service", float64(calls), "")), err
}

// watchMembers measures for how long any pool has no member that gets
// connections.
func (w *site) watchMembers() (bare func() time.Duration, stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	var total time.Duration
	go func() {
		defer close(done)
		last := time.Now()
		for {
			select {
			case <-ended:
				return
			case now := <-time.After(5 * time.Millisecond):
				for _, p := range w.Pools() {
					if !slices.ContainsFunc(w.Members(p.UUID), func(m cloudscale.Member) bool { return m.Enabled }) {
						total += now.Sub(last)
						break
					}
				}
				last = now
			}
		}
	}()
	return func() time.Duration { return total }, func() { close(ended); <-done }
}

// atOnce makes n Services together, waits, and looks at an idle resync of them.
func (c *cluster) atOnce(ctx context.Context, s settings, n int, o cloudscale.Options) (rows []Row, err error) {
	const every = 75 * time.Second // longer than what was read is trusted
	w, err := c.openSite(ctx, s, o, "--cloud-resync", every.String())
	if err != nil {
		return nil, err
	}
	defer w.close(ctx, &err)
	began := time.Now()
	if err := concurrently(ctx, n, inFlight, func(i int) error { return w.create(ctx, fmt.Sprintf("web-%05d", i)) }); err != nil {
		return nil, err
	}
	if err := w.served(ctx); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	calls, writes := w.calls()
	what, limit := fmt.Sprintf("%d Services at once", n), 1.0
	if o.Changing > 0 {
		// One is made, and changed twelve times.
		what, limit = what+", each change takes a second", 13
	}
	progress("  %s: %.1f s, %d calls", what, took, calls)
	all, seconds := info("calls for "+what, float64(calls), ""), info("time for "+what, took, "s")
	if n == 20 && o.Changing < 0 {
		all, seconds = all.below(their20), seconds.below(their20Time)
	}
	rows = append(rows, all, info("writes among them, for each", float64(writes)/float64(n), ""), seconds,
		info("that time, of what the cloud itself needs for one", took/limit, ""))
	if n == 100 && o.Changing < 0 {
		w.ResetLog()
		err := poll(ctx, "a resync", time.Second, func() (bool, error) {
			return w.Counts()[cloudscale.Call{Method: http.MethodGet, Kind: cloudscale.Pools}] > 0, nil
		})
		if err == nil {
			err = pause(ctx, 5*time.Second)
		}
		if err != nil {
			return nil, err
		}
		calls, writes := w.calls()
		rows = append(rows,
			info("calls of an idle resync of 100 Services with 2 ports: 5 lists, and one of each pool's members", float64(calls), "").atMost(205),
			info("writes among them", float64(writes), "").exactly(0))
	}
	if err := c.remove(ctx); err != nil {
		return nil, err
	}
	return rows, poll(ctx, "all are gone", 100*time.Millisecond, func() (bool, error) { return len(w.LoadBalancers()) == 0, nil })
}
