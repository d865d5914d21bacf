package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/config"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/snapshot"
)

// Verification compares a cluster with what it was before: the answer of "kubectl fairlead
// migrate --verify".
type Verification struct {
	Time metav1.Time `json:"time"`
	From string      `json:"from"`
	// Before is when the state was saved.
	Before  metav1.Time      `json:"before"`
	Checks  []snapshot.Check `json:"checks"`
	Unknown []string         `json:"unknown,omitempty"`
}

// Health sums up.
func (v *Verification) Health() snapshot.Health {
	h := (&snapshot.Checks{Checks: v.Checks}).Health()
	if h == snapshot.Healthy && len(v.Unknown) > 0 {
		return snapshot.Unknown
	}
	return h
}

func (v *Verification) add(name string, mark snapshot.Mark, fact, fix string) {
	v.Checks = append(v.Checks, snapshot.Check{Name: name, Mark: mark, Fact: fact, Fix: fix})
}

// Verify compares a cluster with what Prepare found before the migration.
func Verify(ctx context.Context, from Source, before *Migration, o Options) (*Verification, error) {
	if before.From != from.Name {
		return nil, fmt.Errorf("the saved state is of a migration from %q, not from %q", before.From, from.Name)
	}
	s, err := snapshot.Read(ctx, snapshot.Options{REST: o.REST, Routes: len(before.Stock.Routers) > 0, Projects: true})
	if err != nil {
		return nil, err
	}
	c, err := readCluster(ctx, o.REST)
	if err != nil {
		return nil, err
	}
	v := &Verification{Time: metav1.NewTime(time.Now()), From: from.Name, Before: before.Time}
	v.services(s, before.Stock.Services)
	v.routers(s, before.Stock.Routers)
	if err := v.objects(ctx, c, before.Stock.Objects); err != nil {
		return nil, err
	}
	v.gone(c, from, before, o)
	v.Unknown = slices.Concat(s.Unknown, c.unknown)
	slices.Sort(v.Unknown)
	v.Unknown = slices.Compact(v.Unknown)
	return v, nil
}

// services wants every Service to have the address that it had, from Fairlead.
func (v *Verification) services(s *snapshot.Snapshot, held []Held) {
	if s.Survey == nil {
		v.add("Services", snapshot.Unclear, "unknown: cannot list services", "")
		return
	}
	fine := 0
	for _, h := range held {
		namespace, name, _ := strings.Cut(h.Service, "/")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		of := s.Service(key)
		if of == nil {
			v.add("Service "+h.Service, snapshot.Skipped, "it does not exist any more, or has another type", "")
			continue
		}
		why, next := s.WhyService(key), "kubectl fairlead why "+h.Service
		switch has := addressesOf(of.Service); {
		case !slices.Equal(has, h.Addresses):
			v.add("Service "+h.Service, snapshot.Failed, fmt.Sprintf("had %s, and has %s", prose.And(h.Addresses), list(has)), next)
		case of.Class == nil && s.Install.Assumed != "":
			v.add("Service "+h.Service, snapshot.Unclear, "unknown: "+s.Install.Assumed, next)
		case of.Class == nil:
			v.add("Service "+h.Service, snapshot.Failed, "Fairlead does not serve its class", next)
		case of.Says == nil && of.Class.Backend != config.KubeVIP:
			v.add("Service "+h.Service, snapshot.Failed, "has its address, but Fairlead has written nothing on it yet", next)
		case why.Health() == snapshot.Problems:
			v.add("Service "+h.Service, snapshot.Failed, failedStep(why), next)
		case why.Health() == snapshot.Unknown:
			v.add("Service "+h.Service, snapshot.Unclear, "unknown: "+strings.Join(why.Unknown, "; "), next)
		default:
			fine++
		}
	}
	if fine > 0 || len(held) == 0 {
		v.add("Services", snapshot.Passed, fmt.Sprintf("%d of %d have the address that they had, and Fairlead serves it", fine, len(held)), "")
	}
}

func list(items []string) string {
	if len(items) == 0 {
		return "none"
	}
	return prose.And(items)
}

// failedStep is the first step that does not hold.
func failedStep(w *snapshot.Why) string {
	for _, s := range w.Steps {
		if s.Mark == snapshot.Failed {
			return s.Name + ": " + s.Fact
		}
	}
	return ""
}

// objects wants all objects of the other system's kinds to be there.
func (v *Verification) objects(ctx context.Context, c *cluster, before []Objects) error {
	for _, was := range before {
		unknown := len(c.unknown)
		is, err := c.namesOf(ctx, was)
		if err != nil {
			return err
		}
		if len(c.unknown) > unknown {
			v.add("objects", snapshot.Unclear, "unknown: "+c.unknown[unknown], "")
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(was.Names), func(name string) bool { return slices.Contains(is, name) })
		if len(missing) > 0 {
			v.add("objects", snapshot.Failed, fmt.Sprintf("%s is missing: %s", was.Kind, prose.Few(missing)), "Create them again.")
			continue
		}
		v.add("objects", snapshot.Passed, was.String()+" as before", "")
	}
	return nil
}

// gone wants the old controller, its webhook and its rights to be gone.
func (v *Verification) gone(c *cluster, from Source, before *Migration, o Options) {
	var left []string
	for _, w := range from.workloads(c) {
		if o.Alongside && w.Component == announcerComponent {
			continue // it stays
		}
		if w.Component == announcerComponent && w.getenv("svc_enable") == "false" {
			continue // it stays for the control plane
		}
		if w.Replicas == 0 && w.Kind == "Deployment" {
			v.add(from.Title, snapshot.Skipped, w.name()+" is left, with no replicas", "")
			continue
		}
		left = append(left, w.name())
	}
	if len(left) == 0 && c.cannot(workloadResources...) {
		v.add(from.Title, snapshot.Unclear, unknownWorkloads(), "")
	} else if len(left) > 0 {
		v.add(from.Title, snapshot.Failed, "still there: "+prose.Few(left), "Finish the steps: kubectl fairlead migrate --from "+from.Name+" shows them.")
	} else {
		v.add(from.Title, snapshot.Passed, "does not run any more", "")
	}
	if len(before.Stock.Webhooks) > 0 && c.cannot("validatingwebhookconfigurations") {
		v.add("webhook", snapshot.Unclear, "unknown: cannot list validatingwebhookconfigurations", "")
	}
	for _, hook := range before.Stock.Webhooks {
		if slices.ContainsFunc(c.webhooks.Items, func(w webhookConfiguration) bool { return w.Name == hook }) {
			v.add("webhook", snapshot.Failed, hook+" is left, and nobody answers for it", "kubectl delete validatingwebhookconfiguration "+hook)
		}
	}
	c.found = before.Stock.Workloads
	var rights []string
	for _, r := range c.rights() {
		if kind, _, _ := strings.Cut(r, " "); kind != "serviceaccount" && slices.Contains(before.Stock.Rights, r) {
			rights = append(rights, r)
		}
	}
	if len(rights) > 0 && !o.Alongside {
		v.add("roles", snapshot.Skipped, "left, or used by Fairlead under the same name: "+prose.Few(rights), "")
	}
}
