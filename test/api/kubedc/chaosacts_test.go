package kubedc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/test/kit/rig"
)

func readFull(resp *http.Response, into []byte) (int, error) { return io.ReadFull(resp.Body, into) }

// ours are the rows of this cluster: UUIDs.
func (c *chaos) ours() []string {
	out, _ := c.cluster.Try("--bare", "--columns=_uuid", "find", "Load_Balancer", "external_ids:fairlead.io/cluster=c1")
	return strings.Fields(out)
}

// vandal changes something of ours. That it fails while there is no leader is no wonder.
func (c *chaos) vandal() {
	rows := c.ours()
	if len(rows) == 0 {
		return
	}
	row := rows[rand.IntN(len(rows))]
	act := [][]string{
		{"destroy", "Load_Balancer", row},
		{"clear", "Load_Balancer", row, "vips"},
		{"clear", "Load_Balancer", row, "options"},
		{"clear", "Logical_Router", "shalb-dev", "load_balancer"},
		{"--if-exists", "remove", "Logical_Switch", "shalb-prod-default", "load_balancer", row},
		{"set", "Load_Balancer", row, "name=moon"},
		{"set", "Load_Balancer", row, `vips:"192.0.2.1:1"="10.0.0.1:1"`},
		append([]string{"destroy", "Load_Balancer"}, rows...), // as kube-ovn does when it starts
	}[rand.IntN(8)]
	if _, err := c.cluster.Try(act...); err == nil {
		c.vandalised.Add(1)
	}
}

// tenant creates and deletes Services, and changes endpoints.
func (c *chaos) tenant() {
	ctx := context.Background()
	switch rand.IntN(4) {
	case 0:
		c.create("annotated", fmt.Sprintf("fleeting%d", c.serial.Add(1)), "pooled", 80, nil)
	case 1:
		c.create("shalb-dev", fmt.Sprintf("fleeting%d", c.serial.Add(1)), "", 20000+c.serial.Load(), map[string]string{"service.nlb.kube-dc.com/bind-on-eip": "default-gw"})
	case 2:
		var all corev1.ServiceList
		if err := c.client.List(ctx, &all); err != nil {
			return
		}
		all.Items = slices.DeleteFunc(all.Items, func(s corev1.Service) bool {
			return !strings.HasPrefix(s.Name, "fleeting") || strings.HasSuffix(s.Name, "-ext")
		})
		if len(all.Items) > 0 {
			_ = c.client.Delete(ctx, &all.Items[rand.IntN(len(all.Items))])
		}
	default:
		var all discoveryv1.EndpointSliceList
		if err := c.client.List(ctx, &all); err != nil {
			return
		}
		all.Items = slices.DeleteFunc(all.Items, func(s discoveryv1.EndpointSlice) bool {
			return s.Labels[discoveryv1.LabelManagedBy] != "" || s.Namespace == "default"
		})
		if len(all.Items) > 0 {
			s := &all.Items[rand.IntN(len(all.Items))]
			s.Endpoints = c.slice(s.Namespace, s.Name).Endpoints
			_ = c.client.Update(ctx, s)
		}
	}
}

// killer kills the controller or the leader, or lets another lead, and waits until all
// work again.
func (c *chaos) killer() {
	c.whole.Store(false)
	c.kills.Add(1)
	switch leader := c.cluster.Leader(); rand.IntN(3) {
	case 0:
		c.process.Kill()
		c.launch()
	case 1:
		if leader != nil {
			leader.Kill()
			rig.Eventually(c.t, "another leads", func() error {
				if c.cluster.Leader() == nil {
					return errors.New("none")
				}
				return nil
			})
			leader.Start()
		}
	default:
		if leader != nil {
			leader.TransferLeadership()
		}
	}
	rig.Eventually(c.t, "all work again", c.up)
	c.whole.Store(true)
}

// foreign is what others have in the database.
func (c *chaos) foreign() string {
	var out string
	rig.Eventually(c.t, "read the database", func() error {
		out = ""
		for _, args := range [][]string{
			{"--columns=_uuid,name,vips,protocol,options,external_ids", "find", "Load_Balancer", "external_ids:fairlead.io/cluster!=c1"},
			{"list", "NAT"}, {"list", "Logical_Router_Policy"}, {"--columns=_uuid,name,ports,options", "list", "Logical_Router"}, {"list", "Logical_Router_Port"},
		} {
			text, err := c.cluster.Try(args...)
			if err != nil {
				return err
			}
			out += text + "\n"
		}
		return nil
	})
	return out
}

// addresses of the Services that stay.
func (c *chaos) addresses() map[string]string {
	var all corev1.ServiceList
	if err := c.client.List(context.Background(), &all); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range all.Items {
		if in := s.Status.LoadBalancer.Ingress; len(in) == 1 && !strings.HasPrefix(s.Name, "fleeting") {
			out[s.Namespace+"/"+s.Name] = fmt.Sprintf("%s:%d", in[0].IP, s.Spec.Ports[0].Port)
		}
	}
	return out
}

// converged compares the database with what Services and endpoints say.
func (c *chaos) converged() error {
	ctx := context.Background()
	var services corev1.ServiceList
	var slicesOf discoveryv1.EndpointSliceList
	var eips api.EIpList
	var ovnEips kubeovn.OvnEipList
	for _, l := range []client.ObjectList{&services, &slicesOf, &eips, &ovnEips} {
		if err := c.client.List(ctx, l); err != nil {
			return err
		}
	}
	backends := map[string][]string{}
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			backends[s.Namespace+"/"+s.Name] = append(backends[s.Namespace+"/"+s.Name], e.Addresses[0]+":8080")
		}
	}
	want, autos := map[string]string{}, map[string]bool{}
	for _, s := range services.Items {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		key := s.Namespace + "/" + s.Name
		in := s.Status.LoadBalancer.Ingress
		if len(in) != 1 {
			return fmt.Errorf("%s has no address: %v", key, s.Status.Conditions)
		}
		list := slices.Compact(slices.Sorted(slices.Values(backends[key])))
		want[key] = fmt.Sprintf("%s-%s-tcp %s:%d=%s reject=true", s.Namespace, s.Name, in[0].IP, s.Spec.Ports[0].Port, strings.Join(list, ","))
		autos[string(s.UID)] = true
	}
	text, err := c.cluster.Try("--no-headings", "--format=csv", "--data=bare", "--columns=external_ids,name,vips,options", "find", "Load_Balancer", "external_ids:fairlead.io/cluster=c1")
	if err != nil {
		return err
	}
	rows := 0
	for line := range strings.Lines(strings.TrimSpace(text)) {
		ids, rest, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), `"`, ""), ",")
		_, service, _ := strings.Cut(ids, "fairlead.io/service=")
		service, _, _ = strings.Cut(service, " ")
		name, rest, _ := strings.Cut(rest, ",")
		options := rest[strings.LastIndex(rest, ",")+1:]
		if got := name + " " + strings.TrimSuffix(rest, ","+options) + " " + options; got != want[service] {
			return fmt.Errorf("row of %s is %q, want %q", service, got, want[service])
		}
		rows++
	}
	if rows != len(want) {
		return fmt.Errorf("%d rows for %d Services", rows, len(want))
	}
	if err := c.attachments(want); err != nil {
		return err
	}
	for _, e := range eips.Items {
		if uid, auto := e.Labels[eip.LabelService]; auto && !autos[uid] {
			return fmt.Errorf("EIp %s is left", e.Name)
		}
	}
	if gateways := 2; len(ovnEips.Items) != len(eips.Items)-2+gateways {
		return fmt.Errorf("%d OvnEips for %d EIps", len(ovnEips.Items), len(eips.Items))
	}
	return nil
}

// attachments counts what is on routers and switches.
func (c *chaos) attachments(want map[string]string) error {
	of := map[string]int{"shalb-dev": 0, "annotated": 0}
	for key := range want {
		of[strings.Split(key, "/")[0]]++
	}
	for holder, n := range map[string]int{
		"Logical_Router shalb-dev": of["shalb-dev"], "Logical_Switch shalb-dev-default": of["shalb-dev"] + 1,
		"Logical_Router shalb-prod": of["annotated"], "Logical_Switch shalb-prod-default": of["annotated"],
	} {
		table, name, _ := strings.Cut(holder, " ")
		out, err := c.cluster.Try("--bare", "--columns=load_balancer", "find", table, "name="+name)
		if got := len(strings.Fields(out)); err != nil || got != n {
			return errors.Join(err, fmt.Errorf("%s has %d rows, want %d", holder, got, n))
		}
	}
	return nil
}

// witness measures for how long addresses have no row while database and controller work.
type witness struct {
	longest time.Duration
	gaps    int
	stop    func()
}

func (c *chaos) observe(stable map[string]string) *witness {
	endpoints, err := ovsdb.ParseEndpoints(strings.Join(c.cluster.Endpoints(), ","))
	if err != nil {
		c.t.Fatal(err)
	}
	db, err := ovn.New(ovn.Options{Cluster: "c1", Endpoints: endpoints, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	w := &witness{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { db.Run(ctx) })
	since := map[string]time.Time{}
	look := func() {
		if db.Away() > 0 || !c.whole.Load() {
			clear(since)
			return
		}
		for _, vip := range stable {
			at := netip.MustParseAddrPort(vip)
			taken, err := db.TakenAt(at.Addr(), ovn.Port{Protocol: "tcp", Number: at.Port()})
			began, missing := since[vip]
			switch {
			case err != nil:
			case len(taken) == 0 && !missing:
				since[vip] = time.Now()
				w.gaps++
			case missing:
				w.longest = max(w.longest, time.Since(began))
				if len(taken) > 0 {
					delete(since, vip)
				}
			}
		}
	}
	running.Go(func() { repeat(ctx, 5*time.Millisecond, look) })
	w.stop = func() { cancel(); running.Wait() }
	c.t.Cleanup(w.stop)
	return w
}
