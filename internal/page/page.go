// Package page is the live page: pools, which node announces which address, what waits
// and why, and what has moved. It serves what package snapshot knows to browsers, as
// plain files and a stream of differences. It decides nothing, writes nothing, and does
// not know who may see it: whoever serves it has to check that.
package page

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/snapshot"
)

//go:embed assets
var assets embed.FS

// lingers is how long the cluster is followed after the last viewer has left: a page that
// is loaded again finds everything there.
const lingers = time.Minute

// Source follows a cluster: a snapshot.Watcher.
type Source interface {
	Run(ctx context.Context, tell func(*snapshot.Snapshot, snapshot.Contact))
}

// Page is what viewers see. It follows the cluster while there are any.
type Page struct {
	// Name of the cluster, for its title.
	name   string
	source Source

	mu       sync.Mutex
	shown    *state
	changed  chan struct{} // closed when shown changes
	viewers  int
	stop     context.CancelFunc
	stopping *time.Timer
	running  sync.WaitGroup

	following sync.Mutex // one source runs at a time
	timeline  *timeline  // of whoever runs
}

// state is what is shown at one time. Nobody changes it.
type state struct {
	rows     rows
	snapshot *snapshot.Snapshot
	status   *snapshot.Status
}

// New returns a page about the cluster of that name.
func New(name string, source Source) *Page {
	p := &Page{name: name, source: source, changed: make(chan struct{}), timeline: newTimeline()}
	p.shown = &state{rows: rows{}}
	p.shown.rows.add("head", "head", head{Cluster: name, Away: "Reading the cluster …"})
	return p
}

// Close ends following the cluster.
func (p *Page) Close() {
	p.mu.Lock()
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.mu.Unlock()
	p.running.Wait()
}

// join notes a viewer until leave is called.
func (p *Page) join(ctx context.Context) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers++
	if p.stopping != nil {
		p.stopping.Stop()
		p.stopping = nil
	}
	if p.stop == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // others may stay longer
		p.stop = cancel
		p.running.Go(func() {
			p.following.Lock()
			defer p.following.Unlock()
			p.source.Run(ctx, p.show)
		})
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.viewers--; p.viewers == 0 {
			p.stopping = time.AfterFunc(lingers, p.rest)
		}
	}
}

// rest ends following the cluster if there is still no viewer.
func (p *Page) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers == 0 && p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// show shows what is known now.
func (p *Page) show(s *snapshot.Snapshot, c snapshot.Contact) {
	p.mu.Lock()
	was := p.shown
	p.mu.Unlock()
	now := &state{rows: was.rows, snapshot: was.snapshot, status: was.status}
	if s != nil && s != was.snapshot {
		status := s.Status()
		p.timeline.see(s)
		now.snapshot, now.status, now.rows = s, &status, rowsOf(s, &status, p.timeline)
	}
	now.rows = now.rows.with("head", "head", headOf(p.name, now.status, c))
	p.mu.Lock()
	p.shown = now
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
}

// current returns what is shown, and a channel that is closed when that changes.
func (p *Page) current() (*state, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown, p.changed
}

// policy lets the page use nothing but its own files and its own data. Trusted types keep
// scripts from making HTML of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Shell serves the files of the page. They say nothing about the cluster.
func (p *Page) Shell() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // never: it is embedded
	}
	return hardened(http.FileServerFS(files))
}

// Data serves what the page shows, at data/changes and data/why.
func (p *Page) Data() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/data/changes", p.serveChanges)
	mux.HandleFunc("/data/why", p.serveWhy)
	return hardened(mux)
}

// hardened adds headers that keep other sites from using what is served, and refuses what
// they ask for.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for key, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			h.Set(key, value)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
			return
		}
		// A link from elsewhere may lead to the page, but nothing else may use it.
		if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "another site may not read this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveWhy explains a Service or an address: "kubectl fairlead why".
func (p *Page) serveWhy(w http.ResponseWriter, r *http.Request) {
	shown, _ := p.current()
	s := shown.snapshot
	if s == nil {
		http.Error(w, "the cluster has not been read yet", http.StatusServiceUnavailable)
		return
	}
	var all []*snapshot.Why
	asked := r.URL.Query().Get("about")
	if a, err := lb.ParseAddr(asked); err == nil {
		all = s.WhyAddress(a)
	} else if namespace, name, ok := strings.Cut(asked, "/"); ok {
		all = []*snapshot.Why{s.WhyService(types.NamespacedName{Namespace: namespace, Name: name})}
	} else {
		http.Error(w, "about must be an address, or namespace/name of a Service", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the viewer may have left
}
