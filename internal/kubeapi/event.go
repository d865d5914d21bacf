package kubeapi

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event is what an event says.
type Event struct {
	About   corev1.ObjectReference
	Warning bool
	Reason  string // one word
	Message string
	// Component that reports it, and the node that it runs on, or "".
	Component, Node string
	At              time.Time
	// Name of the object; "" is one that no other event has.
	Name string
}

// Object is the event as the API server keeps it. Events about cluster-wide objects
// go to the default namespace, where kubectl describe looks for them.
func (e Event) Object() *corev1.Event {
	severity := corev1.EventTypeNormal
	if e.Warning {
		severity = corev1.EventTypeWarning
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(e.About.Namespace, metav1.NamespaceDefault),
			Name:      cmp.Or(e.Name, fmt.Sprintf("%s.%x", e.About.Name, e.At.UnixNano())),
		},
		InvolvedObject:      e.About,
		Reason:              e.Reason,
		Message:             e.Message,
		Type:                severity,
		Source:              corev1.EventSource{Component: e.Component, Host: e.Node},
		ReportingController: e.Component,
		ReportingInstance:   e.Node,
		FirstTimestamp:      metav1.NewTime(e.At),
		LastTimestamp:       metav1.NewTime(e.At),
		Count:               1,
	}
}

// ServiceReference refers to a Service.
func ServiceReference(key types.NamespacedName, uid types.UID) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: key.Namespace, Name: key.Name, UID: uid}
}
