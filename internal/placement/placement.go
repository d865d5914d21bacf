// Package placement says where Services of backend ovn are served, and at which addresses:
// it is the backend's Placer. Services have addresses of EIps, which are served by
// kube-ovn; where their class has pools, the ledger gives them, and this package only
// finds the router.
package placement

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/backend"
	backendovn "fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/projects"
)

// unreadRetry is when a Service is looked at again while objects have not been read: when
// they have, all Services are at once.
const unreadRetry = time.Second

// Options of a Placer.
type Options struct {
	REST   *rest.Config
	Log    *slog.Logger
	Config *config.Configuration
	// DB has the rows of Services.
	DB *ovn.DB
	// DryRun: nothing is written.
	DryRun bool
	// Patience is how long kube-ovn may take; 0: eip.Patience.
	Patience time.Duration
}

// objects are those of kube-dc and kube-ovn, as projects.Projects follows and writes them.
type objects interface {
	Run(ctx context.Context, wake func(...types.NamespacedName)) error
	Touch(services ...types.NamespacedName)
	View(s *lb.Service) (*eip.View, error)
	Locate(namespace string) (place kubedc.Place, ok bool, problem string, err error)
	Do(ctx context.Context, plan lb.Plan) error
	Route(ctx context.Context, vpc string, service types.NamespacedName, needed []kubeovn.PolicyRoute) error
}

// Placer places Services by the objects of kube-dc and kube-ovn, and by annotations of
// namespaces.
type Placer struct {
	config   *config.Configuration
	projects objects
	readings compat.Readings
	db       *ovn.DB

	mu sync.Mutex
	// outdated are Services with policy routes that are not needed any more once their
	// rows have changed.
	outdated map[types.NamespacedName]bool
	wake     func(...types.NamespacedName)
}

var (
	_ backendovn.Placer = (*Placer)(nil)
	_ backend.Runner    = (*Placer)(nil)
)

// New makes a Placer.
func New(o Options) (*Placer, error) {
	p := newPlacer(o.Config, o.DB)
	all, err := projects.New(projects.Options{
		REST: o.REST, Log: o.Log, Writes: hasEIps(o.Config), Serves: o.Config.OVN.EIps != config.UseEIps, DryRun: o.DryRun, Patience: o.Patience,
		Claim: p.claim, Rows: rowsOf(o.DB), Served: p.served,
	})
	p.projects = all
	return p, err
}

func newPlacer(c *config.Configuration, db *ovn.DB) *Placer {
	p := &Placer{config: c, db: db, outdated: map[types.NamespacedName]bool{}}
	for _, d := range []compat.Dialect{native.Dialect{}, kubedc.Dialect{}} {
		p.readings = append(p.readings, compat.Named{Dialect: d, Reading: d.Read(compat.Objects{})})
	}
	return p
}

// hasEIps says whether any class has addresses of EIps.
func hasEIps(c *config.Configuration) bool {
	return slices.ContainsFunc(c.Classes, func(class config.Class) bool { return class.Backend == config.OVN && len(class.Pools) == 0 })
}

// Run follows the objects until ctx ends.
func (p *Placer) Run(ctx context.Context, wake func(...types.NamespacedName)) error {
	p.mu.Lock()
	p.wake = wake
	p.mu.Unlock()
	return p.projects.Run(ctx, wake)
}

// Written lets EIps be released whose rows are gone, owners be counted, and policy routes
// go that were for the rows as they were before.
func (p *Placer) Written(services ...types.NamespacedName) {
	p.projects.Touch(services...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range services {
		if p.outdated[s] && p.wake != nil {
			delete(p.outdated, s)
			p.wake(s)
		}
	}
}

// claim is what a Service asks for, if it is of a class without pools.
func (p *Placer) claim(s *lb.Service) (eip.Claim, bool) {
	class := p.config.Class(s.Class)
	if !s.LoadBalancer || class == nil || class.Backend != config.OVN || len(class.Pools) > 0 {
		return eip.Claim{}, false
	}
	r := p.readings.Request(s, nil, compat.Class{Words: kubedc.Format, Plans: true})
	wish, _ := kubedc.Read(s, r.Addresses)
	return eip.Claim{Service: s, Wish: wish, Invalid: r.Invalid != nil}, true
}

// Claims returns what Services ask for, as a Placer with this configuration reads them: for
// those who only want to know.
func Claims(c *config.Configuration) func(*lb.Service) (eip.Claim, bool) {
	return newPlacer(c, nil).claim
}

// rowsOf are what the load balancers of the cluster have at an address.
func rowsOf(db *ovn.DB) eip.Rows {
	return func(address netip.Addr, ports []lb.Port) ([]eip.Row, error) {
		var some []ovn.Port
		for _, p := range ports {
			some = append(some, ovn.Port{Protocol: strings.ToLower(p.Protocol), Number: p.Number})
		}
		taken, err := db.TakenAt(address, some...)
		if err != nil {
			return nil, err
		}
		out := make([]eip.Row, len(taken))
		for i, t := range taken {
			namespace, name, _ := strings.Cut(t.Service, "/")
			out[i] = eip.Row{
				Service: types.NamespacedName{Namespace: namespace, Name: name},
				Address: t.VIP.Addr(), Ports: []lb.Port{{Protocol: strings.ToUpper(t.Protocol), Number: t.VIP.Port()}},
			}
		}
		return out, nil
	}
}

// Place finds out where a Service is served. If it needs an EIp, that is created.
func (p *Placer) Place(ctx context.Context, w *lb.Want) (backendovn.Place, error) {
	place, err := p.place(ctx, w)
	switch {
	case errors.Is(err, projects.ErrUnread):
		return backendovn.Place{Again: unreadRetry, Unknown: true}, nil
	case errors.Is(err, projects.ErrLacking):
		reason := eip.Reasons.With(eip.NotAProject, w.Service.Key.Namespace, err.Error())
		return backendovn.Place{Elsewhere: &reason}, nil
	case err != nil:
		return backendovn.Place{}, err
	}
	place.Tell = append(place.Tell, kubedc.Remarks(&w.Service)...)
	return place, nil
}

func (p *Placer) place(ctx context.Context, w *lb.Want) (backendovn.Place, error) {
	if class := p.config.Class(w.Service.Class); class != nil && len(class.Pools) > 0 {
		return p.byNamespace(ctx, w)
	}
	return p.byProject(ctx, w)
}

// byNamespace places a Service that has its addresses from pools.
func (p *Placer) byNamespace(ctx context.Context, w *lb.Want) (backendovn.Place, error) {
	at, ok, problem, err := p.projects.Locate(w.Service.Key.Namespace)
	if err != nil {
		return backendovn.Place{}, err
	}
	if !ok {
		if problem == "" {
			problem = "it has no annotation " + kubedc.AnnotationRouter + ", and no Vpc and no Project has it"
		}
		reason := eip.Reasons.With(eip.NotAProject, w.Service.Key.Namespace, problem)
		return backendovn.Place{Elsewhere: &reason}, nil
	}
	return backendovn.Place{Router: at.Router, Switches: at.Switches, TakeOver: publishes(&w.Service, w.Verdict.Addresses)}, nil
}

// byProject places a Service that has the addresses of an EIp.
func (p *Placer) byProject(ctx context.Context, w *lb.Want) (backendovn.Place, error) {
	s := &w.Service
	view, err := p.projects.View(s)
	if err != nil {
		return backendovn.Place{}, err
	}
	b := view.Service(s.UID)
	if view.Place == nil {
		return backendovn.Place{Elsewhere: b.Reason}, nil
	}
	at := view.Place
	out := backendovn.Place{
		Router: at.Router, Switches: at.Switches, Addresses: b.Addresses, Former: b.Former, TakeOver: publishes(s, b.Addresses),
		Waits: b.Reason, Tell: b.Tell, Plan: b.Plan, Again: b.Again,
	}
	if at.Vpc != "" && b.Subnet != "" {
		out.Gateway = at.Gateway(b.Subnet)
	}
	if w.Request.Invalid != nil {
		out.Waits = w.Request.Invalid
	}
	if !w.DryRun {
		if err := p.projects.Do(ctx, b.Plan); err != nil {
			return out, err
		}
	}
	return out, p.route(ctx, w, view, &out)
}

// publishes says whether the status of a Service, which tenants cannot write, has all of
// the addresses.
func publishes(s *lb.Service, addresses []netip.Addr) bool {
	published := s.Published()
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !slices.Contains(published, a) })
}
