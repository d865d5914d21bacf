package kubeapi

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEvent(t *testing.T) {
	at := time.Unix(1, 255)
	web := ServiceReference(types.NamespacedName{Namespace: "shop", Name: "web"}, "1234")
	e := Event{About: web, Reason: "Announced", Component: "agent", Node: "node1", At: at}.Object()
	if e.Namespace != "shop" || e.Name != "web.3b9acaff" || e.Type != corev1.EventTypeNormal || e.Source.Host != "node1" || e.ReportingInstance != "node1" || e.InvolvedObject != web {
		t.Errorf("%+v", e)
	}
	edge := corev1.ObjectReference{Kind: "Pool", Name: "edge"}
	e = Event{About: edge, Warning: true, At: at, Name: "edge.once"}.Object()
	if e.Namespace != "default" || e.Name != "edge.once" || e.Type != corev1.EventTypeWarning || e.Count != 1 || !e.LastTimestamp.Equal(&e.FirstTimestamp) {
		t.Errorf("%+v", e)
	}
}
