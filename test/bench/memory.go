package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/daemons"
)

// resident is the most memory that a controller may take, in MiB.
const resident = 200

// memory: what a controller needs in a cluster of 10,000 Services and 1,000
// nodes, when all Services get their address and when it starts and all have
// one; and how long that start takes.
func memory(ctx context.Context, s settings) (rows []Row, err error) {
	s.n *= 10
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	progress("  creating %d Services", s.n)
	if err := c.create(ctx, s.n, inFlight, nil); err != nil {
		return nil, err
	}
	if err := c.createNodes(ctx, s.n/10); err != nil {
		return nil, err
	}
	first, err := c.serveAll(ctx, s)
	if err != nil {
		return nil, err
	}
	again, err := c.startAgain(ctx, s)
	return append(first, again...), err
}

// createNodes makes nodes with an address each.
func (c *cluster) createNodes(ctx context.Context, n int) error {
	return concurrently(ctx, n, inFlight, func(i int) error {
		_, err := c.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i)},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// serveAll lets a controller give all Services their address.
func (c *cluster) serveAll(ctx context.Context, s settings) (rows []Row, err error) {
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startFairlead(c, s)
	if err != nil {
		return nil, err
	}
	defer func() { p.Stop(&err) }()
	at, err := seen.first(ctx, s.n)
	if err != nil {
		return nil, err
	}
	progress("  all have their address after %.1f s; waiting for the events", last(at).Sub(p.Started).Seconds())
	now, _, err := p.Memory()
	if err != nil {
		return nil, err
	}
	err = poll(ctx, "an event for each Service", time.Second, func() (bool, error) {
		list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && list.RemainingItemCount != nil && *list.RemainingItemCount >= int64(s.n)-1, err
	})
	if err != nil {
		return nil, err
	}
	settled, most, err := p.Memory()
	return []Row{
		info("of the controller when all have their address", now, "MiB").below(resident),
		info("of the controller when all events are written", settled, "MiB").below(resident),
		info("of the controller, the most until then", most, "MiB").below(resident),
	}, err
}

// startAgain starts a controller when nothing is left to do, and compares the
// time until it knows that with the time the API server needs for a list.
func (c *cluster) startAgain(ctx context.Context, s settings) (rows []Row, err error) {
	var lists, starts, now, most []float64
	for range max(1, s.rounds/2) {
		began := time.Now()
		if _, err := c.kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{}); err != nil {
			return nil, err
		}
		lists = append(lists, time.Since(began).Seconds())
		took, rss, peak, err := c.settle(ctx, s)
		if err != nil {
			return nil, err
		}
		progress("  one list takes %.2f s; settled after %.2f s", lists[len(lists)-1], took)
		starts, now, most = append(starts, took), append(now, rss), append(most, peak)
	}
	list, start := median(lists), median(starts)
	return []Row{
		info("of a controller started again", median(now), "MiB").below(resident),
		info("of a controller started again, the most until then", median(most), "MiB").below(resident),
		info("start to settled, beyond one list of all Services", start-list, "s").below(30),
		info("start to settled, to one list of all Services", start/list, "×"),
		info("one list of all Services", list, "s"),
	}, nil
}

// settle starts a controller and waits until it has looked at every Service.
func (c *cluster) settle(ctx context.Context, s settings) (seconds, rss, peak float64, err error) {
	p, err := startFairlead(c, s)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { p.Stop(&err) }()
	err = poll(ctx, "the controller has looked at every Service", 20*time.Millisecond, func() (bool, error) {
		looked, err := reconciles(ctx, p)
		return looked >= s.n, err
	})
	if err != nil {
		return 0, 0, 0, err
	}
	seconds = time.Since(p.Started).Seconds()
	rss, peak, err = p.Memory()
	return seconds, rss, peak, err
}

var (
	metricsAddress = regexp.MustCompile(`"for":"metrics","address":"([^"]+)"`)
	reconcileTotal = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="service",result="[a-z_]+"\} (\S+)$`)
)

// reconciles is how often the controller has looked at a Service: none if it
// does not answer yet.
func reconciles(ctx context.Context, p *daemons.Process) (int, error) {
	lines, err := p.LogLines()
	if err != nil {
		return 0, err
	}
	address := metricsAddress.FindStringSubmatch(strings.Join(lines, "\n"))
	if address == nil {
		return 0, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address[1]+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, m := range reconcileTotal.FindAllSubmatch(text, -1) {
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return int(sum), nil
}
