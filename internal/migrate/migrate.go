// Package migrate says how another load balancer is replaced by Fairlead in a cluster:
// it takes stock, refuses what Fairlead cannot serve, and returns the steps of the guide
// with the names of the cluster. Afterwards it compares. It never changes anything: people
// run the steps.
//
// A system that can be replaced is one file with a Source, and a line in Sources.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

// Source is a system that Fairlead can replace.
type Source struct {
	// Name as in --from.
	Name string
	// Title as people call it.
	Title string
	// guide is the page with the steps.
	guide string
	// workloads finds what runs of it.
	workloads func(*cluster) []Workload
	// assess decides how to replace it.
	assess func(ctx context.Context, c *cluster, o Options, f *finding) error
}

// Sources are all systems that Fairlead can replace.
var Sources = []Source{metalLB, kubeVIP, cloudscale, cloudSigma, kubeDC}

// Names of all Sources.
func Names() (out []string) {
	for _, s := range Sources {
		out = append(out, s.Name)
	}
	return out
}

// SourceNamed returns the Source of a name.
func SourceNamed(name string) (Source, error) {
	i := slices.IndexFunc(Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, fmt.Errorf("--from is %q, must be one of %s", name, strings.Join(Names(), ", "))
	}
	return Sources[i], nil
}

// Options of a migration.
type Options struct {
	REST *rest.Config
	// Image of Fairlead, with a tag; empty is the one that the chart names.
	Image string
	// Alongside keeps kube-vip as the announcer.
	Alongside bool
	// SecondAddresses of nodes, by name, from which they can have a second session with the
	// routers while MetalLB has the first.
	SecondAddresses map[string]string
}

// Migration is how to replace a system: the answer of "kubectl fairlead migrate".
type Migration struct {
	// Time of the facts.
	Time metav1.Time `json:"time"`
	From string      `json:"from"`
	// Guide is the page that has the steps.
	Guide string `json:"guide"`
	Stock Stock  `json:"stock"`
	// Checks say what there is, and what stands against a migration.
	Checks []snapshot.Check `json:"checks"`
	// Steps of the guide; none if a check failed.
	Steps   []Step   `json:"steps,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
}

// Health sums up. A migration that is refused is a problem.
func (m *Migration) Health() snapshot.Health {
	h := (&snapshot.Checks{Checks: m.Checks}).Health()
	if h == snapshot.Healthy && len(m.Unknown) > 0 {
		return snapshot.Unknown
	}
	return h
}

// finding is what a Source says about a cluster.
type finding struct {
	// config is that of Fairlead after the migration; metallbNamespace and kubeVIPMap are
	// where it reads the objects of others.
	config           *config.Configuration
	metallbNamespace string
	kubeVIPMap       config.KubeVIPMap
	checks           []snapshot.Check
	objects          []Objects
	webhooks         []string
	// routes has objects about BGP read; kubeVIPBGP is what kube-vip's variables say about it.
	routes     bool
	kubeVIPBGP *config.KubeVIPBGP
	routers    []Router
	// services, if set, says more about the Services that the system serves, and about routers.
	services func(s *snapshot.Snapshot, f *finding)
	choice
}

// pass, refuse and skip note a check.
func (f *finding) pass(name, format string, args ...any) {
	f.checks = append(f.checks, snapshot.Check{Name: name, Mark: snapshot.Passed, Fact: fmt.Sprintf(format, args...)})
}

func (f *finding) refuse(name, fact, fix string) {
	f.checks = append(f.checks, snapshot.Check{Name: name, Mark: snapshot.Failed, Fact: fact, Fix: fix})
}

func (f *finding) skip(name, format string, args ...any) {
	f.checks = append(f.checks, snapshot.Check{Name: name, Mark: snapshot.Skipped, Fact: fmt.Sprintf(format, args...)})
}

// Prepare takes stock, and says how to replace the system.
func Prepare(ctx context.Context, from Source, o Options) (*Migration, error) {
	c, err := readCluster(ctx, o.REST)
	if err != nil {
		return nil, err
	}
	m := &Migration{Time: metav1.NewTime(time.Now()), From: from.Name, Guide: "docs/guides/" + from.guide}
	f := &finding{choice: choice{holds: map[string]bool{}, each: map[string][][]string{}}}
	m.Stock.Workloads = from.workloads(c)
	c.found = m.Stock.Workloads
	if len(c.found) == 0 && c.cannot(workloadResources...) {
		f.checks = append(f.checks, snapshot.Check{Name: from.Title, Mark: snapshot.Unclear, Fact: unknownWorkloads()})
	} else if len(c.found) == 0 {
		f.refuse(from.Title, "it does not run in this cluster", "Check the context of your kubeconfig.")
	}
	for _, w := range c.found {
		f.pass(from.Title, "%s", w.String())
		if w.Owner != "" {
			f.refuse(from.Title, fmt.Sprintf("%s belongs to %s, which would make it again", w.name(), w.Owner), "Uninstall what manages it, and keep its CRDs and objects. Then run this again.")
		}
	}
	known := len(f.checks)
	if len(c.found) > 0 {
		if err := from.assess(ctx, c, o, f); err != nil {
			return nil, err
		}
		m.Stock.Objects, m.Stock.Webhooks, m.Stock.Rights = f.objects, f.webhooks, c.rights()
		for _, k := range f.objects {
			f.pass("objects", "%s", k.String())
		}
		if len(m.Stock.Rights) > 0 {
			f.pass("roles", "%s", prose.Few(m.Stock.Rights))
		}
		if err := m.readServices(ctx, o, f); err != nil {
			return nil, err
		}
	}
	m.Unknown = append(c.unknown, m.Unknown...)
	slices.Sort(m.Unknown)
	m.Unknown = slices.Compact(m.Unknown)
	if len(c.found) > 0 && len(m.Unknown) > 0 {
		f.checks = append(f.checks[:known], snapshot.Check{Name: "migration", Mark: snapshot.Unclear, Fact: "unknown: it was not assessed, because not everything that decides about it can be read"})
	}
	m.Checks = f.checks
	if (&snapshot.Checks{Checks: m.Checks}).Health() != snapshot.Healthy || len(m.Unknown) > 0 {
		return m, nil
	}
	m.nameServices(f)
	m.Steps, err = stepsOf(from.guide, f.choice)
	return m, err
}

// readServices takes stock of the Services that the system serves, and asks the code of
// the controller whether each keeps its addresses.
func (m *Migration) readServices(ctx context.Context, o Options, f *finding) error {
	if f.config == nil {
		return nil
	}
	s, err := snapshot.Read(ctx, snapshot.Options{REST: o.REST, Config: f.config, MetalLBNamespace: f.metallbNamespace, KubeVIPMap: f.kubeVIPMap, KubeVIPBGP: f.kubeVIPBGP, Routes: f.routes, Projects: true})
	if err != nil {
		return err
	}
	m.Unknown = append(m.Unknown, s.Unknown...)
	if s.Survey == nil {
		f.checks = append(f.checks, snapshot.Check{Name: "Services", Mark: snapshot.Unclear, Fact: "unknown: cannot list services"})
		return nil
	}
	counts := map[string]int{}
	served, kept, having := 0, 0, 0
	for i := range s.Survey.Services {
		of := &s.Survey.Services[i]
		class := of.Service.Class
		counts[class]++
		if of.Class == nil || of.Ignored != "" {
			continue
		}
		if b, known := s.Binding(of.Key); known && b.Reason != nil && b.Reason.Code == eip.NotAProject {
			f.skip("Service "+of.Key.String(), "Fairlead does not touch it. %s", b.Reason.Text)
			continue
		}
		served++
		held := Held{Service: of.Key.String(), Class: class, Addresses: addressesOf(of.Service)}
		if len(held.Addresses) == 0 {
			continue
		}
		having++
		m.Stock.Services = append(m.Stock.Services, held)
		if f.keeps(of, s) {
			kept++
		}
	}
	for _, class := range sortedKeys(counts) {
		m.Stock.Classes = append(m.Stock.Classes, ClassCount{Class: class, Services: counts[class]})
		if f.config.Class(class) == nil {
			f.skip("Services", "%d of class %q: not served by the old controller, nor by Fairlead", counts[class], class)
		}
	}
	if f.services != nil {
		f.services(s, f)
	}
	m.Stock.Routers = f.routers
	f.pass("Services", "%d of %d with an address keep it; %d have none", kept, having, served-having)
	return nil
}

// keeps says whether a Service keeps its addresses. If not, a check says why.
func (f *finding) keeps(of *controller.Surveyed, s *snapshot.Snapshot) bool {
	key := of.Key.String()
	has, reason := of.Verdict.Addresses, of.Verdict.Reason
	bound, known := s.Binding(of.Key)
	switch {
	case known:
		if has, reason = bound.Addresses, (lb.Reason{Code: lb.Ready}); bound.Reason != nil {
			reason = *bound.Reason
		}
	case f.config.Class(of.Service.Class).Backend == config.OVN:
		f.checks = append(f.checks, snapshot.Check{Name: "Service " + key, Mark: snapshot.Unclear, Fact: "unknown: not all objects of kube-dc and kube-ovn can be read"})
		return false
	case !of.Settled:
		return true // the cloud knows whose address it is
	case of.Request.DHCP != [len(lb.Families)]bool{}:
		f.skip("Service "+key, "its address is assigned by DHCP: it may get another one")
		return false
	}
	had, gets := prose.Texts(of.Published()), prose.Texts(has)
	slices.Sort(had)
	slices.Sort(gets)
	if slices.Equal(had, gets) {
		if reason.Code != lb.Ready {
			f.pass("Service "+key, "keeps %s. %s", prose.And(had), reason.Text)
		}
		return true
	}
	x := snapshot.Check{Name: "Service " + key, Mark: snapshot.Failed, Fact: fmt.Sprintf("has %s, and would have %s", prose.And(had), cmp.Or(prose.And(gets), "none")), Fix: "Fix that first, so that the Service keeps its address."}
	if reason.Code != lb.Ready {
		x.Reason = string(reason.Code)
		x.Fact += ". " + reason.Text
	}
	for _, a := range of.Published() {
		for i := range s.Survey.Services {
			if other := &s.Survey.Services[i]; other.Key != of.Key && slices.Contains(other.Verdict.Addresses, a) {
				x.Fact += fmt.Sprintf(". Service %s has %s, too, and does not share it", other.Key, a)
			}
		}
	}
	f.checks = append(f.checks, x)
	return false
}

// workloadResources are what systems run as.
var workloadResources = []string{"deployments", "daemonsets", "pods"}

// unknownWorkloads says that it is not known what runs.
func unknownWorkloads() string { return "unknown: cannot list all of " + prose.And(workloadResources) }

// eachService repeats a part of a guide for each Service.
const eachService = "service"

// nameServices tells the guide of the Services.
func (m *Migration) nameServices(f *finding) {
	f.each[eachService] = [][]string{}
	for _, s := range m.Stock.Services {
		namespace, name, _ := strings.Cut(s.Service, "/")
		f.each[eachService] = append(f.each[eachService], []string{
			"wait service/NAME", "wait --namespace " + namespace + " service/" + name,
			"service NAME", "service --namespace " + namespace + " " + name,
		})
	}
}
