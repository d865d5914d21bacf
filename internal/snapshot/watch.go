package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
)

const (
	// Contact with the API server is checked this often, and it has so long to answer.
	contactEvery, contactTimeout = 2 * time.Second, 5 * time.Second
	// installEvery is how often is read what cannot be watched well: the configuration,
	// and the Lease, which changes every other second.
	installEvery = 15 * time.Second
	// watchPause is the least time between two snapshots. If deciding takes longer, it is
	// restFactor times that: somebody else may need the processor.
	watchPause = 50 * time.Millisecond
	restFactor = 2
	// quickFrom is how long deciding must take for reports of agents not to wait for it.
	quickFrom = 50 * time.Millisecond
)

// Contact is when what is known was last known to be so.
type Contact struct {
	At time.Time
	// Away is why nothing newer is known; "" if At is now.
	Away string
}

// Watcher follows a cluster by watches.
type Watcher struct {
	options Options
	client  client.WithWatch
	probe   rest.Interface

	followers []*follower
	events    []*follower
	changed   chan struct{}

	// installed and lastInstall belong to whoever decides, one at a time.
	installed   *installed
	lastInstall time.Time
}

// installed is what was read of the daemons.
type installed struct {
	Install
	config  *config.Configuration
	unknown []string
	// refusedMap is why the ConfigMap of kube-vip's cloud provider could not be read.
	refusedMap string
	maps       client.ObjectList
	noMaps     *string
}

// eventReasons are those of moves and conflicts. MetalLB's name for a move is the last.
var eventReasons = []string{string(lb.Moved), string(lb.AddressConflict), "nodeAssigned"}

// NewWatcher returns one that is not running.
func NewWatcher(o Options) (*Watcher, error) {
	sch, err := newScheme()
	if err != nil {
		return nil, err
	}
	transport, err := rest.HTTPClientFor(o.REST)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	c, err := client.NewWithWatch(o.REST, client.Options{Scheme: sch, HTTPClient: transport})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	asking, err := discovery.NewDiscoveryClientForConfigAndClient(o.REST, transport)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	w := &Watcher{options: o, client: c, probe: asking.RESTClient(), changed: make(chan struct{}, 1)}
	for _, k := range append(o.kinds(), routeKinds()...) {
		w.followers = append(w.followers, &follower{kind: k, client: c, changed: w.wake})
	}
	for _, reason := range eventReasons {
		k := kind{resource: "events", list: &corev1.EventList{}, options: []client.ListOption{client.MatchingFields{"reason": reason}}}
		w.events = append(w.events, &follower{kind: k, client: c, changed: w.wake})
	}
	return w, nil
}

// wake says that something has changed.
func (w *Watcher) wake() {
	select {
	case w.changed <- struct{}{}:
	default: // it is known already
	}
}

// Run follows the cluster until ctx ends. It calls tell with the latest snapshot, nil at
// first, when something has changed, and regularly with what is known of the contact.
func (w *Watcher) Run(ctx context.Context, tell func(*Snapshot, Contact)) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, f := range slices.Concat(w.followers, w.events) {
		running.Go(func() { f.follow(ctx) })
	}
	answers := make(chan Contact)
	running.Go(func() { w.keepContact(ctx, answers) })
	r := &round{Watcher: w, decided: make(chan verdict), contact: Contact{Away: "The API server has not answered yet."}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
			r.change(ctx, &running)
		case <-r.due():
			r.change(ctx, &running)
		case d := <-r.decided:
			r.take(d)
		case r.contact = <-answers:
			if now := time.Now(); now.Sub(r.checked) > installEvery {
				r.checked, r.pending = now, true
				r.change(ctx, &running)
			}
		}
		tell(r.latest, r.known())
	}
}

// keepContact asks the API server whether it is there.
func (w *Watcher) keepContact(ctx context.Context, out chan<- Contact) {
	var c Contact
	for {
		asked := time.Now()
		c.Away = w.ask(ctx)
		if c.Away == "" {
			c.At = asked
		}
		select {
		case <-ctx.Done():
			return
		case out <- c:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(contactEvery):
		}
	}
}

// ask returns why nothing new is known.
func (w *Watcher) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	code := 0
	if err := w.probe.Get().AbsPath("/readyz").Do(ctx).StatusCode(&code).Error(); err != nil && (code == 0 || code >= http.StatusInternalServerError) {
		return "The API server does not answer."
	}
	for _, f := range w.followers {
		if _, behind, _, _ := f.state(); behind {
			return "The API server does not answer requests for " + f.resource + "."
		}
	}
	return ""
}

// round is the state of one Run.
type round struct {
	*Watcher
	latest  *Snapshot
	contact Contact
	checked time.Time

	decided  chan verdict
	deciding bool
	pending  bool // something has changed that has to be decided about
	took     time.Duration
	ended    time.Time
	failure  error // of the last decision
}

// known is when what is known was last known to be so.
func (r *round) known() Contact {
	c := r.contact
	if r.failure != nil && c.Away == "" {
		c.Away = "The cluster cannot be read: " + r.failure.Error() + "."
		if r.latest != nil {
			c.At = r.latest.At
		}
	}
	return c
}

// verdict is a snapshot, and how long it took.
type verdict struct {
	*Snapshot
	err  error
	took time.Duration
}

// due is when the next decision may be made, if there is something to decide.
func (r *round) due() <-chan time.Time {
	if !r.pending || r.deciding || r.latest == nil {
		return nil
	}
	return time.After(time.Until(r.ended.Add(max(watchPause, restFactor*r.took))))
}

// change takes over what has changed: what agents report at once, everything else when
// it is decided.
func (r *round) change(ctx context.Context, running *sync.WaitGroup) {
	for _, f := range slices.Concat(r.followers, r.events) {
		if read, _, _, _ := f.state(); !read {
			return
		}
	}
	if r.latest != nil && r.took > quickFrom {
		r.latest = r.withReports(r.latest)
	}
	r.pending = true
	if r.deciding || r.latest != nil && time.Since(r.ended) < max(watchPause, restFactor*r.took) {
		return
	}
	r.deciding, r.pending = true, false
	running.Go(func() {
		began := time.Now()
		s, err := r.snapshot(ctx)
		select {
		case <-ctx.Done():
		case r.decided <- verdict{s, err, time.Since(began)}:
		}
	})
}

// take takes over a decision. Agents may have reported since it began.
func (r *round) take(d verdict) {
	r.deciding, r.took, r.ended, r.failure = false, d.took, time.Now(), d.err
	if d.err == nil {
		r.latest = d.Snapshot
		if r.took > quickFrom {
			r.latest = r.withReports(r.latest)
		}
	}
}

// withReports returns the snapshot with what agents and events say now.
func (w *Watcher) withReports(s *Snapshot) *Snapshot {
	out := *s
	for _, f := range w.followers {
		if _, is := f.kind.list.(*v1alpha1.AgentList); is && s.Survey != nil {
			list, _ := f.lists()
			if s.objects.lists[keyOf(list)] == list {
				continue
			}
			out.At, out.objects = time.Now(), s.objects.replaced(list)
			out.take()
			out.Survey = s.Survey.WithAgents(out.Agents, out.Nodes, reasons.All)
			out.hold()
		}
	}
	out.Events = w.readEvents()
	return &out
}

func (w *Watcher) readEvents() (out []corev1.Event) {
	for _, f := range w.events {
		if list, _ := f.lists(); list != nil {
			events, _ := list.(*corev1.EventList)
			out = append(out, events.Items...)
		}
	}
	return out
}

// snapshot decides about what is known now. That can fail, as when the configuration
// cannot be read.
func (w *Watcher) snapshot(ctx context.Context) (*Snapshot, error) {
	s := &Snapshot{At: time.Now(), objects: newObjects(), options: w.options, refused: map[string]string{}}
	again := false
	for _, f := range w.followers {
		list, differs := f.lists()
		switch _, _, absent, refused := f.state(); {
		case f.standsIn(w.followers): // the other version is there
		case absent:
			s.objects.lacks[f.gvk] = ""
		case refused:
			s.refuse(f.resource)
			s.objects.lacks[f.gvk] = "cannot list " + f.resource
		default:
			s.objects.add(list)
		}
		again = again || differs && f.resource == "pods"
	}
	for _, f := range w.events {
		if _, _, _, refused := f.state(); refused {
			s.refuse(f.resource)
		}
	}
	s.Events = w.readEvents()
	s.take()
	if err := w.install(ctx, s, again); err != nil {
		return nil, err
	}
	if s.cannot("services") {
		return s, nil
	}
	return s, s.decide(ctx)
}

// install takes over what is known of the daemons, and reads it if it is old.
func (w *Watcher) install(ctx context.Context, s *Snapshot, again bool) error {
	maps := keyOf(&corev1.ConfigMapList{})
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	if w.installed == nil || again || time.Since(w.lastInstall) > installEvery {
		known := len(s.Unknown)
		if err := s.readInstall(ctx, w.client); err != nil {
			if w.installed == nil {
				return err
			}
		} else {
			w.lastInstall = time.Now()
			w.installed = &installed{Install: s.Install, config: s.Config, unknown: slices.Clone(s.Unknown[known:]), refusedMap: s.unread("configmaps"), maps: s.objects.lists[maps]}
			if why, lacks := s.objects.lacks[gvk]; lacks {
				w.installed.noMaps = &why
			}
			return nil
		}
	}
	s.Install, s.Config = w.installed.Install, w.installed.config
	s.Unknown = append(s.Unknown, w.installed.unknown...)
	if w.installed.refusedMap != "" {
		s.refused["configmaps"] = w.installed.refusedMap
	}
	if w.installed.maps != nil {
		s.objects.add(w.installed.maps)
	}
	if w.installed.noMaps != nil {
		s.objects.lacks[gvk] = cmp.Or(*w.installed.noMaps, "")
	}
	return nil
}
