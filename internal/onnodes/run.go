package onnodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/snapshot"
)

// Options of a check.
type Options struct {
	Kube      kubernetes.Interface
	Namespace string
	Image     string
	// Port of the nodes that agents use for gossip.
	Port int
	// Wait is how long all of it may take, without the removal.
	Wait time.Duration
}

const (
	// poll is how often the pods are read.
	poll = time.Second
	// removal is how long removing the DaemonSet may take.
	removal = 20 * time.Second
)

// Run checks all nodes, and adds a check for each result. Whatever happens, it removes
// what it made, also if ctx ends.
func Run(ctx context.Context, o Options, out *snapshot.Checks) error {
	nodes, err := o.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		add(out, "nodes", snapshot.Unclear, "unknown: cannot list nodes", "")
		return nil
	}
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var expected []Peer
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if reason := unfit(n); reason != "" {
			add(out, "node "+n.Name, snapshot.Skipped, reason, "")
			continue
		}
		expected = append(expected, Peer{Node: n.Name, Address: internalAddress(n)})
	}
	if len(expected) == 0 {
		add(out, "nodes", snapshot.Skipped, "there is no node that is ready", "")
		return nil
	}
	if err := o.removeOld(ctx); err != nil {
		return err
	}
	nonce := make([]byte, 8)
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	made, err := o.Kube.AppsV1().DaemonSets(o.Namespace).Create(ctx, daemonSet(o, expected, hex.EncodeToString(nonce)), metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		add(out, "nodes", snapshot.Unclear, "unknown: cannot create daemonsets in namespace "+o.Namespace, "")
		return nil
	case apierrors.IsNotFound(err):
		add(out, "nodes", snapshot.Skipped, fmt.Sprintf("namespace %s does not exist", o.Namespace), "kubectl create namespace "+o.Namespace)
		return nil
	case err != nil:
		return fmt.Errorf("create a DaemonSet in namespace %s: %w", o.Namespace, err)
	}
	found := o.wait(ctx, made, expected)
	err = o.remove(ctx, made)
	for _, p := range expected {
		o.report(out, p, found[p.Node])
	}
	return err
}

func add(out *snapshot.Checks, name string, mark snapshot.Mark, fact, fix string) {
	out.Checks = append(out.Checks, snapshot.Check{Name: name, Mark: mark, Fact: fact, Fix: fix})
}

// unfit says why a node is not checked.
func unfit(n *corev1.Node) string {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case !ready:
		return "it is not Ready"
	case n.Labels[corev1.LabelOSStable] != "" && n.Labels[corev1.LabelOSStable] != "linux":
		return "agents do not run on " + n.Labels[corev1.LabelOSStable]
	case internalAddress(n) == "":
		return "it has no InternalIP"
	}
	return ""
}

func internalAddress(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// state is what became of a pod.
type state struct {
	report *Report
	// trouble is why there is no report.
	trouble string
}

// wait waits until all nodes have reported, or o.Wait is over.
func (o Options) wait(ctx context.Context, made *appsv1.DaemonSet, expected []Peer) map[string]state {
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	found := map[string]state{}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		pods, err := o.Kube.CoreV1().Pods(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(made.Spec.Selector)})
		done := 0
		for _, p := range expected {
			if err == nil {
				if is := stateOf(pods.Items, p.Node); is.report != nil || found[p.Node].report == nil {
					found[p.Node] = is
				}
			} else if _, known := found[p.Node]; !known {
				found[p.Node] = state{trouble: "its pod could not be read: " + err.Error()}
			}
			if found[p.Node].report != nil {
				done++
			}
		}
		if done == len(expected) {
			return found
		}
		select {
		case <-ctx.Done():
			if denied := o.denied(context.WithoutCancel(ctx), made); denied != "" {
				for node, is := range found {
					if is.report == nil {
						found[node] = state{trouble: denied}
					}
				}
			}
			return found
		case <-tick.C:
		}
	}
}

// stateOf finds the report of a node, or why there is none yet.
func stateOf(pods []corev1.Pod, node string) state {
	for i := range pods {
		p := &pods[i]
		if nodeOf(p) != node {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if t == nil {
					continue
				}
				r, err := Decode(t.Message)
				if err != nil {
					return state{trouble: err.Error()}
				}
				return state{report: r}
			}
			if w := c.State.Waiting; w != nil {
				return state{trouble: strings.TrimSpace("its pod waits: " + w.Reason + " " + w.Message)}
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return state{trouble: "its pod is not scheduled: " + c.Message}
			}
		}
		return state{trouble: fmt.Sprintf("its pod has not ended in time (phase %s)", p.Status.Phase)}
	}
	return state{trouble: "it got no pod in time"}
}

// nodeOf is the node that a pod of a DaemonSet is for.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return p.Spec.NodeName
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// denied says why the API server admits no pods of the DaemonSet; "" if it does, or if
// that is not known.
func (o Options) denied(ctx context.Context, made *appsv1.DaemonSet) string {
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	events, err := o.Kube.CoreV1().Events(o.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate,involvedObject.name=" + made.Name})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	return events.Items[len(events.Items)-1].Message
}

// report adds what is known of a node.
func (o Options) report(out *snapshot.Checks, p Peer, is state) {
	if is.report == nil {
		add(out, "node "+p.Node, snapshot.Skipped, "not checked: "+is.trouble, "")
		return
	}
	for _, r := range is.report.Results {
		add(out, "node "+p.Node+" "+r.Name, r.Mark, r.Fact, r.Fix)
	}
}

// remove removes a DaemonSet and its pods. It has its own time: ctx may have ended.
func (o Options) remove(ctx context.Context, d *appsv1.DaemonSet) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removal)
	defer cancel()
	background := metav1.DeletePropagationBackground
	var err error
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err = o.Kube.AppsV1().DaemonSets(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove the DaemonSet: %w; remove it with kubectl delete daemonset --namespace %s %s", err, d.Namespace, d.Name)
		case <-tick.C:
		}
	}
}

// removeOld removes what an earlier check left that was killed.
func (o Options) removeOld(ctx context.Context) error {
	all, err := o.Kube.AppsV1().DaemonSets(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: label + "=" + name})
	if apierrors.IsForbidden(err) {
		return nil // then it cannot make one either
	}
	if err != nil {
		return fmt.Errorf("list daemonsets: %w", err)
	}
	for i := range all.Items {
		d := &all.Items[i]
		until, err := time.Parse(time.RFC3339, d.Annotations[deadline])
		if err == nil && time.Now().Before(until) {
			continue // another check is under way
		}
		if err := o.remove(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
