package metallb

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/configstate"
	"fairlead.io/internal/prose"
)

// speaker is what MetalLB calls its agents in a ConfigurationState.
const speaker = "speaker"

// maxSummary is how long the list of what is wrong may be.
const maxSummary = 2048

// configState keeps the ConfigurationState object of this node: whether all pools
// and advertisements of MetalLB's kinds can be used.
type configState struct {
	owner   ownership
	arrived chan struct{}

	mu      sync.Mutex
	known   bool
	summary string // of what is wrong; empty if nothing is

	writing sync.Mutex
	writer  configstate.Writer
}

func newConfigState(node, namespace string, c client.Client, owner ownership) *configState {
	return &configState{owner: owner, arrived: make(chan struct{}, 1), writer: configstate.Writer{
		Key:    types.NamespacedName{Namespace: namespace, Name: speaker + "-" + node},
		Labels: map[string]string{apimetallb.LabelComponentType: speaker, apimetallb.LabelNodeName: node}, Condition: "configReconcilerValid",
		Reader: c, Client: c, Exclusive: true,
	}}
}

// summaryOf lists what is wrong with objects.
func summaryOf(problems []sources.Problem) string {
	var out []string
	for _, p := range problems {
		if !p.Reason.Ready() {
			out = append(out, p.Kind+" "+p.Name+": "+p.Reason.Text)
		}
	}
	return prose.Cut(strings.Join(out, " "), maxSummary)
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

// pass makes the object say what is.
func (c *configState) pass(ctx context.Context) (more bool, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
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
	return false, c.writer.Write(ctx, &owner, summary)
}

// finish removes the object.
func (c *configState) finish(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
	return c.writer.Delete(ctx)
}
