package metallb

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/agent/write"
)

// Words of MetalLB's speakers in a ConfigurationState.
const (
	speaker            = "speaker"
	conditionConfig    = "configReconcilerValid"
	reasonReconciled   = "Reconciled"
	reasonConfigErrors = "ConfigurationError"
)

// maxSummary is how long the list of what is wrong may be.
const maxSummary = 2048

// configState keeps the ConfigurationState object of this node: whether all pools
// and advertisements of MetalLB's kinds can be used. It is written only if that
// changes, or somebody deletes it.
type configState struct {
	node, namespace string
	client          client.Client
	owner           ownership
	arrived         chan struct{}

	mu      sync.Mutex
	known   bool
	summary string // of what is wrong; empty if nothing is

	passing sync.Mutex
}

// summaryOf lists what is wrong with objects.
func summaryOf(problems []sources.Problem) string {
	var out []string
	for _, p := range problems {
		if !p.Reason.Ready() {
			out = append(out, p.Kind+" "+p.Name+": "+p.Reason.Text)
		}
	}
	text := strings.Join(out, " ")
	if len(text) > maxSummary {
		text = strings.ToValidUTF8(text[:maxSummary], "") + "…"
	}
	return text
}

func (c *configState) set(summary string) {
	c.mu.Lock()
	same := c.known && c.summary == summary
	c.known, c.summary = true, summary
	c.mu.Unlock()
	if !same {
		write.Wake(c.arrived)
	}
}

func (c *configState) name() string { return speaker + "-" + c.node }

// pass makes the object say what is.
func (c *configState) pass(ctx context.Context) (more bool, err error) {
	c.passing.Lock()
	defer c.passing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.mu.Lock()
	known, summary := c.known, c.summary
	c.mu.Unlock()
	if !known {
		return false, nil
	}
	owner, err := c.owner.reference(ctx)
	if err != nil {
		return false, err
	}
	have := &apimetallb.ConfigurationState{}
	err = c.client.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: c.name()}, have)
	if err == nil && (len(have.OwnerReferences) != 1 || have.OwnerReferences[0].UID != owner.UID) {
		// That of another pod, MetalLB's or ours, which goes with it.
		if err = c.client.Delete(ctx, have); err == nil {
			err = apierrors.NewNotFound(apimetallb.GroupVersion.WithResource("configurationstates").GroupResource(), have.Name)
		}
	}
	if apierrors.IsNotFound(err) {
		have = &apimetallb.ConfigurationState{ObjectMeta: metav1.ObjectMeta{
			Namespace:       c.namespace,
			Name:            c.name(),
			Labels:          map[string]string{apimetallb.LabelComponentType: speaker, apimetallb.LabelNodeName: c.node},
			OwnerReferences: []metav1.OwnerReference{owner},
		}}
		err = c.client.Create(ctx, have)
	}
	if err != nil {
		return false, err
	}
	want := stateOf(summary, time.Now())
	if old := meta.FindStatusCondition(have.Status.Conditions, conditionConfig); old != nil && old.Status == want.Conditions[0].Status {
		if have.Status.Result == want.Result && have.Status.ErrorSummary == want.ErrorSummary && old.Message == want.Conditions[0].Message {
			return false, nil
		}
		want.Conditions[0].LastTransitionTime = old.LastTransitionTime
	}
	return false, write.PatchStatus(ctx, c.client, have, map[string]any{"result": want.Result, "errorSummary": want.ErrorSummary, "conditions": want.Conditions})
}

// stateOf returns the status that says summary.
func stateOf(summary string, now time.Time) apimetallb.ConfigurationStateStatus {
	condition := metav1.Condition{Type: conditionConfig, Status: metav1.ConditionTrue, Reason: reasonReconciled, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	result := apimetallb.Valid
	if summary != "" {
		result, condition.Status, condition.Reason, condition.Message = apimetallb.Invalid, metav1.ConditionFalse, reasonConfigErrors, summary
	}
	return apimetallb.ConfigurationStateStatus{Result: result, ErrorSummary: summary, Conditions: []metav1.Condition{condition}}
}

// finish removes the object.
func (c *configState) finish(ctx context.Context) error {
	c.passing.Lock()
	defer c.passing.Unlock()
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
	o := &apimetallb.ConfigurationState{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name()}}
	return client.IgnoreNotFound(c.client.Delete(ctx, o))
}
