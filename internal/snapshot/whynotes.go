package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
)

// maxNotes is how many notes a chain has at most, of each sort.
const maxNotes = 5

// noteConfiguration adds to a chain that is broken what is wrong with objects of the
// configuration: that may be why.
func (s *Snapshot) noteConfiguration(w *Why) {
	var all []Problem
	for _, p := range s.pools() {
		if !p.Ready {
			all = append(all, Problem{About: "pool " + p.Name, Reason: p.Reason, Message: p.Message, Next: "kubectl fairlead ip --pool " + p.Name})
		}
	}
	for _, o := range s.Survey.Warnings {
		all = append(all, Problem{About: strings.ToLower(o.About.Kind) + " " + o.About.Name, Reason: string(o.Reason.Code), Message: o.Reason.Text})
	}
	all = append(all, s.objectProblems()...)
	all = append(all, s.eipProblems(w.Service)...)
	for i, p := range all {
		if i == maxNotes {
			w.add(Step{Name: "configuration", Mark: Noted, Fact: fmt.Sprintf("%d more objects are not used as they are", len(all)-i), Fix: []string{"kubectl fairlead status"}})
			break
		}
		step := Step{Name: p.About, Mark: Noted, Reason: p.Reason, Fact: p.Message}
		if p.Next != "" {
			step.Fix = []string{p.Next}
		}
		w.add(step)
	}
}

// eipProblems are what the EIps of a Service's namespace say, if that has EIps.
func (s *Snapshot) eipProblems(service string) (out []Problem) {
	namespace, name, _ := strings.Cut(service, "/")
	if _, known := s.Binding(types.NamespacedName{Namespace: namespace, Name: name}); !known {
		return nil
	}
	for _, key := range s.projects().book.EIps(namespace) {
		for _, c := range s.projects().book.GetEIp(key).Status.Conditions {
			if _, ours := eip.Reasons[lb.Code(c.Reason)]; ours && c.Status == metav1.ConditionFalse {
				out = append(out, Problem{About: "eip " + key.Name, Reason: c.Reason, Message: c.Message, Next: fmt.Sprintf("kubectl describe eip -n %s %s", namespace, key.Name)})
			}
		}
	}
	return out
}

// inSteps are reasons of events that a step of the chain finds as well, now.
var inSteps = []lb.Code{lb.NotAnnounced, lb.NoServingEndpoint, lb.AddressConflict, lb.AddressRefused, lb.NoAgent, lb.AnnouncerLost, eip.NotAProject}

// onlyInEvents says whether nothing but events has a warning.
func onlyInEvents(code lb.Code) bool {
	about, known := reasons.All[code]
	return known && about.Event && about.Warning && about.On == "Service" && !slices.Contains(inSteps, code)
}

// NoteEvents adds to the chain of a Service the warnings that nothing but events has, the latest of
// each reason. Events expire, and may not be readable, which is then Unknown: no step depends on
// them.
func (s *Snapshot) NoteEvents(ctx context.Context, kube kubernetes.Interface, w *Why) {
	namespace, name, _ := strings.Cut(w.Service, "/")
	object := s.Object(types.NamespacedName{Namespace: namespace, Name: name})
	if object == nil {
		return
	}
	list, err := kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "Service", "involvedObject.uid": string(object.UID),
	}.String()})
	if err != nil {
		w.Unknown = append(slices.Clone(w.Unknown), "cannot list events of namespace "+namespace)
		return
	}
	latest := map[string]*corev1.Event{}
	for i := range list.Items {
		e := &list.Items[i]
		if had := latest[e.Reason]; onlyInEvents(lb.Code(e.Reason)) && (had == nil || happened(had).Before(happened(e))) {
			latest[e.Reason] = e
		}
	}
	for _, step := range w.Steps {
		delete(latest, step.Reason)
	}
	var all []*corev1.Event
	for _, e := range latest {
		all = append(all, e)
	}
	slices.SortFunc(all, func(x, y *corev1.Event) int {
		if c := happened(y).Compare(happened(x).Time); c != 0 {
			return c
		}
		return strings.Compare(x.Reason, y.Reason)
	})
	for _, e := range all[:min(len(all), maxNotes)] {
		// On one line: whoever may write events must not add steps to the chain.
		step := Step{Name: "event", Mark: Noted, Reason: e.Reason, Fact: strings.Join(strings.Fields(e.Message), " ")}
		if ago := s.ago(happened(e).Time); ago != "" {
			step.Fact = fmt.Sprintf("%s (%s ago)", step.Fact, ago)
		}
		if do := reasons.All[lb.Code(e.Reason)].Do; do != "" {
			step.Fix = []string{do}
		}
		w.add(step)
	}
}

// happened is when an event was last written.
func happened(e *corev1.Event) *metav1.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return &e.LastTimestamp
	case !e.EventTime.IsZero():
		return &metav1.Time{Time: e.EventTime.Time}
	}
	return &e.CreationTimestamp
}
