package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// conclude makes the Service say what a look has led to, in one write, then tells it
// in events. again is when to look again because of what others write.
func (c *services) conclude(ctx context.Context, w *lb.Want, m *memo, held lb.Held, out *lb.Outcome) (again time.Duration, err error) {
	s, now := &w.Service, time.Now()
	var patch kubeapi.Patches
	if !w.DryRun && !out.Passing {
		content := contentOf(w, out)
		patch = kubeapi.Patch(s, out, now)
		wait, quiet, rival := c.backOffForeignWriter(s, m, out, content, &patch, now)
		if wait > 0 {
			c.tell(w, m, out, rival)
			return wait, nil
		}
		if again = quiet; !patch.Empty() {
			m.attempted = true
			written, err := c.write(ctx, s, patch)
			if err != nil {
				return 0, err
			}
			if written == nil {
				return conflictRetry, nil
			}
			c.tellReleased(w, m, out)
			c.observe(w, m, held, out, now)
			m.written, m.content, m.published = written.Version, content, w.Verdict.Addresses
			c.log.Info("service written", "service", s.Key.String(), "addresses", prose.Commas(w.Verdict.Addresses), "reason", out.Reason.Code, "steps", out.Done)
		}
		if rival.Code == lb.ForeignWriter && out.Reason.Code != lb.ForeignWriter {
			return again, nil // they may be back at once
		}
		if patch.Empty() && !m.attempted && m.told.Code == "" && out.Condition != lb.ConditionSays && !w.Gone {
			m.told = out.Reason // it was found as it should be: that was reported long ago
		}
	}
	m.attempted = false
	c.tell(w, m, out, out.Reason)
	if out.Gone {
		c.forget(s.Key)
	}
	return again, nil
}

// contentOf is what an outcome says, to be compared.
func contentOf(w *lb.Want, out *lb.Outcome) string {
	text := out.Reason.String() + "\n" + prose.Commas(w.Verdict.Addresses) + "\n" + fmt.Sprint(out.Ingress)
	if out.Unannounced != nil {
		text += "\n" + out.Unannounced.String()
	}
	return text
}

// backOffForeignWriter notices when another program keeps overwriting what we
// wrote. It then leaves the Service alone for longer and longer (wait), and returns
// the reason ForeignWriter. Where our condition is ours to write, it puts the reason
// into out and its patch. quiet is when to check whether the other has stopped.
func (c *services) backOffForeignWriter(s *lb.Service, m *memo, out *lb.Outcome, content string, patch *kubeapi.Patches, now time.Time) (wait, quiet time.Duration, rival lb.Reason) {
	overwritten := m.written != "" && m.content == content && out.Owns != "" && !patch.Empty()
	if overwritten {
		m.foreign.note(s.Version, now)
	}
	if !m.foreign.persistent(now) {
		return 0, 0, lb.Reason{}
	}
	switch {
	case overwritten:
		rival = lb.ForeignWriter.With(out.Owns)
	case m.told.Code == lb.ForeignWriter:
		rival = m.told
	default:
		return 0, foreignQuiet, lb.Reason{}
	}
	if out.Condition == lb.ConditionSays {
		out.Reason = rival
		*patch = kubeapi.Patch(s, out, now)
	}
	if overwritten {
		most := maxForeignWait
		if out.Ingress != nil && c.ledger.ours(s.Published()) {
			most = foreignHarmful
		}
		wait = max(0, m.foreign.wait(now, most))
	}
	return wait, foreignQuiet, rival
}

// observe notes how long a Service waited for its first address.
func (c *services) observe(w *lb.Want, m *memo, held lb.Held, out *lb.Outcome, now time.Time) {
	had := len(w.Service.Ingress) > 0 || len(held.Addresses) > 0
	if !had && (len(w.Verdict.Addresses) > 0 || len(out.Ingress) > 0) {
		c.waited.Observe(m.age(&w.Service, now).Seconds())
	}
}

// write sends a patch. No error and no Service means that it did not fit the object
// any more; a newer version is on its way.
func (c *common) write(ctx context.Context, s *lb.Service, patch kubeapi.Patches) (*lb.Service, error) {
	data, subresource := patch.Status, []string{"status"}
	if patch.Object != nil {
		data, subresource = patch.Object, nil
	}
	if data == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	written, err := c.client.CoreV1().Services(s.Key.Namespace).Patch(ctx, s.Key.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{FieldManager: component}, subresource...)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("write %s: %w", strings.Join(append([]string{"service " + s.Key.String()}, subresource...), ", "), err)
	}
	return kubeapi.Service(written), nil
}
