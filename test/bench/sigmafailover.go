package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/sandbox"
)

const (
	// sigmaSpare is moved by the bare client, sigmaAnnounced is that of class announce:
	// the account has both, and gives lower ones to Services.
	sigmaSpare     = "192.0.2.28"
	sigmaAnnounced = "192.0.2.29"
)

// sigmaLAN is a sandbox in a simulated CloudSigma.
type sigmaLAN struct {
	*lan
	bare    *bareCloud
	servers map[string]string // UUIDs by node
	on      int               // which node's server has the spare address
}

// sigmaFailover: what clients see when the node dies that carries their address. With a
// card for each address, it is compared with what it takes to learn of the death and to
// move the card by hand; with manual cards, with an address of class announce.
func sigmaFailover(ctx context.Context, s settings) (rows []Row, err error) {
	if err := s.lan.down(ctx); err != nil { // of the groups before
		return nil, err
	}
	*s.lan = lan{}
	l := &sigmaLAN{lan: &lan{cloud: sandbox.CloudSigma, pools: map[string][]v1alpha1.Span{metav1.NamespaceDefault: {sigmaAnnounced + "/32"}}}}
	defer func() {
		l.Tell(&err)
		err = errors.Join(err, l.down(ctx))
	}()
	if err := l.open(ctx, s); err != nil {
		return nil, err
	}
	web, err := l.serviceOf(ctx, "web", "")
	if err != nil {
		return nil, err
	}
	for _, latency := range sigmaLatencies {
		more, err := l.attached(ctx, s, latency, web)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	if err := l.makeManual(ctx); err != nil {
		return nil, err
	}
	manual, err := l.serviceOf(ctx, "manual", "")
	if err != nil {
		return nil, err
	}
	announced, err := l.serviceOf(ctx, "announced", config.DefaultClass)
	if err != nil {
		return nil, err
	}
	for _, latency := range sigmaLatencies {
		more, err := l.compared(ctx, s, latency, manual, announced)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// open starts everything.
func (l *sigmaLAN) open(ctx context.Context, s settings) error {
	if err := l.up(ctx, s); err != nil {
		return err
	}
	url, err := l.Cluster.CloudURL()
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(l.Cluster.StateDir, "cloud", "token"))
	if err != nil {
		return err
	}
	l.bare = &bareCloud{url, strings.TrimSpace(string(token))}
	var list sigmaList
	if err := l.bare.do(ctx, http.MethodGet, "servers/?limit=0", nil, &list); err != nil {
		return err
	}
	l.servers = map[string]string{}
	for _, o := range list.Objects {
		l.servers[o["name"].(string)] = o["uuid"].(string)
	}
	if err := l.bare.attach(ctx, l.servers[l.nodes[0]], []netip.Addr{netip.MustParseAddr(sigmaSpare)}); err != nil {
		return err
	}
	// Another one's tag keeps the address from Services of CloudSigma's class.
	tag := sigmaObject{"name": "cluster:announced", "resources": []string{sigmaAnnounced}}
	if err := l.bare.do(ctx, http.MethodPost, "tags/", sigmaObject{"objects": []sigmaObject{tag}}, nil); err != nil {
		return err
	}
	file := filepath.Join(l.Scratch, "fairlead.yaml")
	text := "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nnodes: {cloud: cloudsigma}\n" +
		"classes: [{name: \"\", backend: cloudsigma}, {name: " + config.DefaultClass + ", backend: announce}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	l.Flags = []string{"--config", file}
	l.env = []string{"CLOUDSIGMA_REGION=zrh", "CLOUDSIGMA_TOKEN=" + l.bare.token, "CLOUDSIGMA_API_ENDPOINT=http://10.77.0.2:8080"}
	if err := l.Run(ctx, l.nodes...); err != nil {
		return err
	}
	return l.control(ctx, "--cluster-name", sigmaCluster)
}

// serviceOf makes a Service of a class and returns its address.
func (l *sigmaLAN) serviceOf(ctx context.Context, name, class string) ([]netip.AddrPort, error) {
	service, err := l.newService(ctx, metav1.NamespaceDefault, name, func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = nil, []corev1.IPFamily{corev1.IPv4Protocol}
		if class != "" {
			s.Spec.LoadBalancerClass = ptr.To(class)
		}
	})
	if err != nil {
		return nil, err
	}
	return l.addresses(ctx, service)
}

// slow has every call of the cloud take that long until it is ended.
func (l *sigmaLAN) slow(ctx context.Context, latency time.Duration) (end func() error, err error) {
	const path = "/sandbox/faults"
	end = func() error {
		_, err := l.Cluster.CloudRequest(ctx, http.MethodDelete, path, "")
		return err
	}
	if latency > 0 {
		_, err = l.Cluster.CloudRequest(ctx, http.MethodPost, path, fmt.Sprintf(`{"times":-1,"latency":%q}`, latency))
	}
	return end, err
}

// makeManual sets the public card of each server to manual, as its owner would.
func (l *sigmaLAN) makeManual(ctx context.Context) error {
	for _, server := range l.servers {
		err := l.bare.change(ctx, server, func(cards []any) []any {
			for _, c := range cards {
				if card := c.(sigmaObject); card["vlan"] == nil {
					card["ip_v4_conf"], card["ip_v6_conf"] = sigmaObject{"conf": "manual"}, nil
					break
				}
			}
			return cards
		})
		if err != nil {
			return err
		}
	}
	l.controller.Stop(new(error)) // the next one reads all servers
	return l.control(ctx, "--cluster-name", sigmaCluster)
}

// attached is about an address that has a card.
func (l *sigmaLAN) attached(ctx context.Context, s settings, latency time.Duration, web []netip.AddrPort) (rows []Row, err error) {
	end, err := l.slow(ctx, latency)
	if err != nil {
		return nil, err
	}
	var detected, moved []float64
	o := &outcomes{name: fmt.Sprintf("node killed, %d ms per call", latency.Milliseconds())}
	for range s.rounds {
		after, err := l.dies(ctx, web, o)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		began := time.Now()
		if err := l.moveBare(ctx); err != nil {
			return nil, errors.Join(err, end())
		}
		detected, moved = append(detected, milliseconds(after)), append(moved, milliseconds(time.Since(began)))
		progress("  %s: %.0f ms without, known after %.0f ms, bare calls %.0f ms", o.name, o.interrupted[len(o.interrupted)-1], milliseconds(after), moved[len(moved)-1])
	}
	outage, known, bare := median(o.interrupted), median(detected), median(moved)
	in := fmt.Sprintf(", of %d times the median", len(detected))
	return []Row{
		info(o.name+": no new connection, to death known and bare calls of a move, the medians", outage/(known+bare), "×").atMost(1.3),
		info(o.name+": no new connection"+in, outage, "ms"),
		info(o.name+": until another agent has reported it"+in, known, "ms"),
		info(o.name+": bare calls of a move"+in, bare, "ms"),
	}, end()
}

// compared is about an address that needs no card, and one of class announce.
func (l *sigmaLAN) compared(ctx context.Context, s settings, latency time.Duration, manual, announced []netip.AddrPort) (rows []Row, err error) {
	end, err := l.slow(ctx, latency)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("node killed, manual cards, %d ms per call", latency.Milliseconds())
	both := []*outcomes{{name: name}, {name: name}}
	err = inTurns(s.rounds, len(both), func(i int) error {
		_, err := l.dies(ctx, [][]netip.AddrPort{manual, announced}[i], both[i])
		return err
	})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	ours, theirs := median(both[0].interrupted), median(both[1].interrupted)
	in := fmt.Sprintf(", of %d times the median", s.rounds)
	return []Row{
		info(name+": no new connection, to class announce, the medians", ours/theirs, "×").atMost(1.2),
		info(name+": no new connection"+in, ours, "ms"),
		info(name+": no new connection, class announce"+in, theirs, "ms"),
	}, end()
}

// dies kills the node that carries an address, and returns when another agent had
// reported it.
func (l *sigmaLAN) dies(ctx context.Context, addrs []netip.AddrPort, o *outcomes) (known time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	agents, err := l.api.Watch(ctx, &v1alpha1.AgentList{})
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	killed := events[1]
	strike := killed.strike
	killed.strike = func(ctx context.Context, lan *lan, owner string) error {
		began := time.Now()
		all.Go(func() { known = reported(agents, owner, began) })
		return strike(ctx, lan, owner)
	}
	err = l.happen(ctx, killed, addrs, o)
	agents.Stop()
	all.Wait()
	if err == nil && known == 0 {
		err = errors.New("no agent has reported the death")
	}
	return known, err
}

// reported waits until an agent says that another is lost.
func reported(agents watch.Interface, lost string, since time.Time) time.Duration {
	for e := range agents.ResultChan() {
		if a, is := e.Object.(*v1alpha1.Agent); is && slices.Contains(a.Status.Lost, lost) {
			return time.Since(since)
		}
	}
	return 0
}

// moveBare moves the spare address to the next server by the calls that CloudSigma's own
// controller makes: read and write one server, then the other.
func (l *sigmaLAN) moveBare(ctx context.Context) error {
	from := l.servers[l.nodes[l.on]]
	l.on = (l.on + 1) % len(l.nodes)
	err := l.bare.change(ctx, from, func(cards []any) []any {
		return slices.DeleteFunc(cards, func(card any) bool {
			text, _ := json.Marshal(card)
			return strings.Contains(string(text), `"conf":"static"`) && strings.Contains(string(text), `"`+sigmaSpare+`"`)
		})
	})
	if err != nil {
		return err
	}
	return l.bare.change(ctx, l.servers[l.nodes[l.on]], func(cards []any) []any {
		return append(cards, sigmaObject{"ip_v4_conf": sigmaObject{"conf": "static", "ip": sigmaObject{"uuid": sigmaSpare}}})
	})
}
