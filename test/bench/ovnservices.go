package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ovn"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/daemons"
)

// ovnInFlight is how many Services the controller works on at the same time with backend
// ovn.
const ovnInFlight = 100

// ovnServices: Services that the controller addresses from a pool and makes real in OVN,
// all on one router, with northd at work.
func ovnServices(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.endpoints(ctx, s.n); err != nil {
		return nil, err
	}
	perSecond := make([][]float64, 2)
	var grouped, healed, oneByOne, ours, theirs []float64
	err = inTurns(s.rounds, 2, func(i int) (err error) {
		n, err := startNorthbound(ctx, true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		start := side{"fairlead", n.startFairlead}
		if i == 1 {
			start = side{"bare loop", n.startBare}
		}
		seconds, p, err := c.programAll(ctx, s, start)
		if err != nil {
			return err
		}
		defer func() { p.Stop(&err); err = errors.Join(err, c.remove(ctx)) }()
		perSecond[i] = append(perSecond[i], float64(s.n)/seconds)
		progress("  %s: %.2f s", start.name, seconds)
		if i == 1 {
			var none error
			p.Stop(&none)
			took, err := n.again(ctx, s.n)
			oneByOne = append(oneByOne, milliseconds(took))
			return err
		}
		transactions, err := n.cfg(ctx)
		if err != nil {
			return err
		}
		grouped = append(grouped, float64(transactions)/float64(s.n))
		if err := c.told(ctx, s.n); err != nil {
			return err
		}
		took, err := n.heal(ctx, s.n)
		if err != nil {
			return err
		}
		healed = append(healed, milliseconds(took))
		progress("  %d deleted rows are back after %.0f ms", s.n, milliseconds(took))
		mine, nbctl, err := c.changeEndpoints(ctx, n)
		ours, theirs = append(ours, mine...), append(theirs, nbctl...)
		return err
	})
	if err != nil {
		return nil, err
	}
	fairlead, loop := median(perSecond[0]), median(perSecond[1])
	back, once := median(healed), median(oneByOne)
	mine, nbctl := median(ours), median(theirs)
	return []Row{
		info(fmt.Sprintf("%d Services addressed and programmed, bare loop", s.n), loop, "1/s"),
		info(fmt.Sprintf("%d Services addressed and programmed, Fairlead", s.n), fairlead, "1/s"),
		info("that, Fairlead to bare loop", fairlead/loop, "×").atLeast(0.8),
		info("transactions per Service", median(grouped), "").atMost(1),
		info(fmt.Sprintf("%d rows, a bare client one by one", s.n), once, "ms"),
		info(fmt.Sprintf("%d rows that somebody deletes are back", s.n), back, "ms"),
		info("that, Fairlead to bare client", back/once, "×").atMost(2),
		info("endpoint change until northd has it, ovn-nbctl --wait=sb", nbctl, "ms"),
		info("endpoint change until northd has it, from the EndpointSlice on", mine, "ms"),
		info("that, Fairlead to ovn-nbctl", mine/nbctl, "×").atMost(1.5),
	}, nil
}

// endpoints makes the EndpointSlices of n Services: nobody else does.
func (c *cluster) endpoints(ctx context.Context, n int) error {
	if _, err := c.kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"project",%q:"project-default"}}}`, kubedc.AnnotationRouter, kubedc.AnnotationSwitches), metav1.PatchOptions{}); err != nil {
		return err
	}
	return concurrently(ctx, n, inFlight, func(i int) error {
		_, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, sliceFor(fmt.Sprintf("web-%05d", i)), metav1.CreateOptions{})
		return err
	})
}

func sliceFor(service string) *discoveryv1.EndpointSlice {
	ready := discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.11"}, Conditions: ready}, {Addresses: []string{"10.0.0.12"}, Conditions: ready}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(int32(80))}},
	}
}

// programAll makes pending Services and returns how long one side needs, which goes on.
func (c *cluster) programAll(ctx context.Context, s settings, of side) (seconds float64, p *daemons.Process, err error) {
	if err := errors.Join(c.create(ctx, s.n, inFlight, nil), c.kube.CoreV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})); err != nil {
		return 0, nil, err
	}
	seen, err := c.look(ctx)
	if err != nil {
		return 0, nil, err
	}
	if p, err = of.start(c, s); err != nil {
		return 0, nil, err
	}
	at, err := seen.first(ctx, s.n)
	if err != nil {
		p.Stop(&err)
		return 0, nil, err
	}
	return last(at).Sub(p.Started).Seconds(), p, nil
}

// told waits until there are n events: they are written after the addresses, and must not
// be measured with what comes then.
func (c *cluster) told(ctx context.Context, n int) error {
	return poll(ctx, "events are written", pollEvery, func() (bool, error) {
		list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1, ResourceVersion: ""})
		return err == nil && 1+int(ptr.Deref(list.RemainingItemCount, 0)) >= n, err
	})
}

// startFairlead starts a controller with a class of backend ovn. Its addresses are from a
// pool, or else kube-ovn's.
func (n *northbound) startFairlead(c *cluster, s settings) (*daemons.Process, error) {
	return n.startWith(c, s, ", pools: [native]")
}

func (n *northbound) startWith(c *cluster, s settings, class string) (*daemons.Process, error) {
	cmd := exec.Command(s.binary, "controller", "--kubeconfig", c.api.Kubeconfig, "--cluster-name", "bench", "--config", "/dev/stdin")
	cmd.Stdin = strings.NewReader("apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: " + config.DefaultClass + ", backend: ovn" + class + "}]\novn: {northbound: [\"unix:" + n.socket + "\"]}\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return daemons.Launch(cmd, "")
}

func (n *northbound) startBare(c *cluster, _ settings) (*daemons.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(self, "-bare", c.api.Kubeconfig, "-northbound", n.socket)
}

// program returns what the bare loop does for a Service: one transaction and one patch.
// The database does one thing after the other: more connections only cost time.
func (n *northbound) program(atOnce int) (func(job, context.Context, kubernetes.Interface) error, error) {
	conns := make(chan *rawConn, atOnce)
	for range atOnce {
		c, err := n.dial()
		if err != nil {
			return nil, err
		}
		conns <- c
	}
	return func(j job, ctx context.Context, kube kubernetes.Interface) error {
		c := <-conns
		err := c.transact(n.insert(j.service.Namespace, j.service.Name, string(j.service.UID), j.address.String()))
		conns <- c
		if err != nil {
			return err
		}
		return j.patch(ctx, kube)
	}, nil
}

// again deletes all rows, and returns how long one bare client needs to insert them one by
// one, with northd at work.
func (n *northbound) again(ctx context.Context, rows int) (time.Duration, error) {
	c, err := n.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.transact(deleteAll); err != nil {
		return 0, err
	}
	began := time.Now()
	for i := range rows {
		if err := errors.Join(ctx.Err(), c.transact(n.operations(i))); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// heal deletes all rows, and returns when they are back.
func (n *northbound) heal(ctx context.Context, rows int) (time.Duration, error) {
	k, err := n.keep(ctx)
	if err != nil {
		return 0, err
	}
	defer k.stop()
	c, err := n.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	deleted := map[string]bool{}
	before, err := k.db.Rows()
	if err != nil {
		return 0, err
	}
	for _, r := range before {
		deleted[r.UUID] = true
	}
	began := time.Now()
	if err := c.transact(deleteAll); err != nil {
		return 0, err
	}
	err = pollFor(ctx, time.Minute, "all rows are back", 2*time.Millisecond, func() (bool, error) {
		all, err := k.db.Rows()
		return len(all) == rows && !slices.ContainsFunc(all, func(r ovn.Owned) bool { return deleted[r.UUID] }), err
	})
	return time.Since(began), err
}

// cfg is how many transactions the controller has made: each raises nb_cfg.
func (n *northbound) cfg(ctx context.Context) (int64, error) {
	out, err := n.ctl(ctx, "--", "get", "NB_Global", ".", "nb_cfg")
	if err != nil {
		return 0, err
	}
	var cfg int64
	_, err = fmt.Sscan(out, &cfg)
	return cfg, err
}

// changes is how often endpoints change.
const changes = 20

// changeEndpoints changes the endpoints of one Service, and in turn those of a load
// balancer with ovn-nbctl. Both take until northd has it.
func (c *cluster) changeEndpoints(ctx context.Context, n *northbound) (ours, theirs []float64, err error) {
	k, err := n.keep(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer k.stop()
	slice := sliceFor("web-00000")
	err = inTurns(changes, 2, func(i int) error {
		// What was written before must not be waited for.
		cfg, err := n.cfg(ctx)
		if err != nil {
			return err
		}
		if err := k.programmed(ctx, cfg); err != nil {
			return err
		}
		began := time.Now()
		if i == 1 {
			_, err := n.ctl(ctx, "--wait=sb", "--", "--may-exist", "lb-add", "theirs", "192.0.2.1:80", fmt.Sprintf("10.0.0.%d:80", 1+len(theirs)))
			theirs = append(theirs, milliseconds(time.Since(began)))
			return err
		}
		slice.Endpoints[0].Addresses = []string{netip.AddrFrom4([4]byte{10, 0, 1, byte(1 + len(ours))}).String()}
		data, err := json.Marshal(map[string]any{"endpoints": slice.Endpoints})
		if err != nil {
			return err
		}
		if _, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Patch(ctx, slice.Name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
			return err
		}
		err = k.programmed(ctx, cfg+1)
		ours = append(ours, milliseconds(time.Since(began)))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	_, err = c.kube.DiscoveryV1().EndpointSlices(namespace).Patch(ctx, slice.Name, types.MergePatchType, []byte(`{"endpoints":[{"addresses":["10.0.0.11"]},{"addresses":["10.0.0.12"]}]}`), metav1.PatchOptions{})
	return ours, theirs, err
}

// programmed waits for northd.
func (k *keeper) programmed(ctx context.Context, cfg int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	key := (&ovn.Service{Namespace: "bench", Name: "await"}).Key()
	for !k.db.Programmed(cfg) {
		k.db.Await(key, cfg)
		select {
		case <-k.news:
		case <-ctx.Done():
			return fmt.Errorf("northd has not reached %d: %w", cfg, ctx.Err())
		}
	}
	return nil
}
