package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/config"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/daemons"
)

// kubevipKey is the key of the ConfigMap that has all addresses.
const kubevipKey = "cidr-global"

var kubevipMap = &corev1.ConfigMap{
	ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubevip"},
	Data:       map[string]string{kubevipKey: poolAddresses},
}

var kubevipSides = []side{{"fairlead", startProvider}, {"bare loop", startBareProvider}}

// kubevipProvider: Services that are pending when a controller starts in the place
// of kube-vip's cloud provider all get what kube-vip needs to announce them. The
// bare loop patches each of them once, too.
func kubevipProvider(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{Audit: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.client.Create(ctx, kubevipMap.DeepCopy()); err != nil {
		return nil, err
	}
	perSecond := make([][]float64, len(kubevipSides))
	err = takeTurns(s.rounds, kubevipSides, func(i int, of side) error {
		if err := c.create(ctx, s.n, inFlight, nil); err != nil {
			return err
		}
		seconds, err := c.provideAll(ctx, s, of)
		if err != nil {
			return err
		}
		perSecond[i] = append(perSecond[i], float64(s.n)/seconds)
		progress("  %s: %.2f s", of.name, seconds)
		return c.removeProvided(ctx)
	})
	if err != nil {
		return nil, err
	}
	ours, bare := median(perSecond[0]), median(perSecond[1])
	rows = []Row{
		info("addresses per second, Fairlead to bare loop", ours/bare, "×").atLeast(0.9),
		info("addresses per second from the start, Fairlead", ours, "1/s"),
		info("addresses per second from the start, bare loop", bare, "1/s"),
	}
	more, err := c.providerCost(ctx, s)
	return append(rows, more...), err
}

// provideAll returns how long the side needs for all Services that wait.
func (c *cluster) provideAll(ctx context.Context, s settings, of side) (seconds float64, err error) {
	seen, err := c.look(ctx)
	if err != nil {
		return 0, err
	}
	seen.has = given
	p, err := of.start(c, s)
	if err != nil {
		return 0, err
	}
	at, err := seen.first(ctx, s.n)
	p.Stop(&err)
	return last(at).Sub(p.Started).Seconds(), err
}

// providerCost counts what Fairlead asks of the API server, once for Services that
// are new, and once for those that have been told that they wait for the ConfigMap.
func (c *cluster) providerCost(ctx context.Context, s settings) (rows []Row, err error) {
	before, err := c.writes()
	if err != nil {
		return nil, err
	}
	if err := c.client.Delete(ctx, kubevipMap.DeepCopy()); err != nil {
		return nil, err
	}
	p, err := startProvider(c, s)
	if err != nil {
		return nil, err
	}
	defer func() { p.Stop(&err) }()
	if err := c.create(ctx, s.n, inFlight, nil); err != nil {
		return nil, err
	}
	waiting, err := c.quiet(ctx, 5*time.Second, before["create events"]+s.n)
	if err != nil {
		return nil, err
	}
	reads, err := c.reads(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	seen.has = given
	began := time.Now()
	if err := c.client.Create(ctx, kubevipMap.DeepCopy()); err != nil {
		return nil, err
	}
	at, err := seen.first(ctx, s.n)
	if err != nil {
		return nil, err
	}
	served, err := c.quiet(ctx, 5*time.Second, before["create events"]+2*s.n)
	if err != nil {
		return nil, err
	}
	readsThen, err := c.reads(ctx)
	if err != nil {
		return nil, err
	}
	progress("  waiting for a minute in which nothing is written")
	if err := pause(ctx, idle); err != nil {
		return nil, err
	}
	after, err := c.writes()
	if err != nil {
		return nil, err
	}
	each := func(after, before map[string]int, what string) float64 {
		return float64(after[what]-before[what]) / float64(s.n)
	}
	patched := func(after, before map[string]int) float64 {
		return each(after, before, "patch services") + each(after, before, "patch services/status")
	}
	return []Row{
		info("addresses per second from the arrival of the ConfigMap", float64(s.n)/last(at).Sub(began).Seconds(), "1/s"),
		info("writes of a Service that waits, each", patched(waiting, before), "").exactly(1),
		info("writes of a Service that gets what it waits for, each", patched(served, waiting), "").exactly(1),
		info("events, for each Service", each(served, waiting, "create events"), "").exactly(1),
		info("writes of all kinds, in an idle minute", float64(total(after)-total(served)), "").exactly(0),
		// By everybody; one is the list of the bench itself.
		info("reads of Services and ConfigMaps while all were served", float64(readsThen-reads), "").atMost(10),
	}, nil
}

// reads counts how often Services and ConfigMaps were read, by everybody.
func (c *cluster) reads(ctx context.Context) (n int, err error) {
	raw, err := c.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read metrics of the API server: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(line, `resource="services"`) && !strings.Contains(line, `resource="configmaps"`) {
			continue
		}
		if !strings.Contains(line, `verb="GET"`) && !strings.Contains(line, `verb="LIST"`) {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value); err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		n += int(value)
	}
	return n, nil
}

// removeProvided deletes all Services, whose finalizer nobody looks after now.
func (c *cluster) removeProvided(ctx context.Context) error {
	if err := c.remove(ctx); err != nil {
		return err
	}
	api := c.kube.CoreV1().Services(namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return concurrently(ctx, len(list.Items), inFlight, func(i int) error {
		_, err := api.Patch(ctx, list.Items[i].Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// startProvider runs Fairlead with the environment of kube-vip's cloud provider.
func startProvider(c *cluster, s settings) (*daemons.Process, error) {
	// Alone: a lease of the one before, which was killed, would be waited for.
	cmd := exec.Command(s.binary, "controller", "--leader-elect=false", "--kubeconfig", c.api.Kubeconfig)
	cmd.Env = append(os.Environ(), config.EnvKubeVIPClassMode+"=true", config.EnvKubeVIPClassName+"="+config.DefaultClass)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return daemons.Launch(cmd, "")
}

func startBareProvider(c *cluster, _ settings) (*daemons.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(self, "-bare", c.api.Kubeconfig, "-provide")
}
