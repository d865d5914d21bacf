package controller

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/kubeapi"
)

const (
	// component is the source of our events and the field manager of our writes.
	component = "fairlead"

	// eventsWait is how long events are held back while addresses are being
	// written; a cluster that is never idle gets its events all the same.
	eventsWait = 10 * time.Second
	// eventsQuiet is how long nothing new must be told before anything is: Services
	// are created one after the other.
	eventsQuiet = 100 * time.Millisecond
	// eventsPoll is how often a held-back event looks whether it may go.
	eventsPoll = 20 * time.Millisecond
	// eventsKept bounds the memory of a controller that cannot write events: of
	// more, the oldest of the namespace that has most are dropped. The condition on
	// the object stays.
	eventsKept = 20_000
)

// events writes events one at a time, behind the addresses: while busy says
// that reconciles are waiting, events wait, too. (client-go's recorder writes
// at once, drops in bursts, and folds similar events of different Services.)
type events struct {
	client kubernetes.Interface
	log    *slog.Logger
	busy   func() bool

	mu      sync.Mutex
	waiting turns[waitingEvent] // namespaces take turns
	newest  time.Time           // when the last one was added
	arrived chan struct{}
}

// waitingEvent is an event to be: there may be thousands, and an Event is large.
type waitingEvent struct {
	about   corev1.ObjectReference
	event   compat.Event
	warning bool
	since   time.Time
	// once names an event of which there is no second one, also after a restart.
	once string
}

func newEvents(client kubernetes.Interface, log *slog.Logger, busy func() bool) *events {
	return &events{client: client, log: log, busy: busy, arrived: make(chan struct{}, 1),
		waiting: turns[waitingEvent]{of: func(w waitingEvent) string { return w.about.Namespace }}}
}

// add queues an event about an object; it never blocks.
func (e *events) add(about corev1.ObjectReference, event compat.Event, warning bool) {
	e.queue(waitingEvent{about: about, event: event, warning: warning})
}

// addOnce queues an event unless the object has it already: one for each sentence.
func (e *events) addOnce(about corev1.ObjectReference, event compat.Event, warning bool) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(event.Message))
	e.queue(waitingEvent{about: about, event: event, warning: warning, once: fmt.Sprintf("%s.%s.%x", about.Name, about.UID, sum.Sum64())})
}

// addFirst queues an event unless the object has one by this way already, whatever
// it says.
func (e *events) addFirst(about corev1.ObjectReference, event compat.Event, warning bool) {
	e.queue(waitingEvent{about: about, event: event, warning: warning, once: fmt.Sprintf("%s.%s", about.Name, about.UID)})
}

func (e *events) queue(w waitingEvent) {
	e.mu.Lock()
	if e.waiting.Len() == eventsKept {
		e.waiting.DropFromLongest()
	}
	e.newest = time.Now()
	w.since = e.newest
	e.waiting.Push(w)
	e.mu.Unlock()
	select {
	case e.arrived <- struct{}{}:
	default:
	}
}

// Start writes events until ctx ends.
func (e *events) Start(ctx context.Context) error {
	for {
		w, ok := e.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-e.arrived:
			}
			continue
		}
		if !e.hold(ctx, w.since) {
			return nil
		}
		if err := e.write(ctx, w.object()); err != nil && ctx.Err() == nil && !(w.once != "" && apierrors.IsAlreadyExists(err)) {
			e.log.Warn("event not written", "object", w.about.Namespace+"/"+w.about.Name, "reason", w.event.Reason, "error", err)
		}
	}
}

func (e *events) write(ctx context.Context, event *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := e.client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{FieldManager: component})
	return err
}

func (e *events) next() (waitingEvent, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting.Len() == 0 {
		return waitingEvent{}, false
	}
	return e.waiting.Pop(), true
}

func (w waitingEvent) object() *corev1.Event {
	return kubeapi.Event{
		About: w.about, Warning: w.warning, Reason: w.event.Reason, Message: w.event.Message,
		Component: cmp.Or(w.event.Component, component), At: w.since, Name: w.once,
	}.Object()
}

// hold waits until all is quiet, or an event of that age has waited long enough;
// false means that ctx ended.
func (e *events) hold(ctx context.Context, since time.Time) bool {
	tick := time.NewTicker(eventsPoll)
	defer tick.Stop()
	for !e.quiet() && time.Since(since) < eventsWait {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return ctx.Err() == nil
}

func (e *events) quiet() bool {
	e.mu.Lock()
	newest := e.newest
	e.mu.Unlock()
	return time.Since(newest) >= eventsQuiet && !e.busy()
}
