package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox/cloudscale"
)

// cloudToken is the variable whose value makes Fairlead the cloud's controller.
const cloudToken = "CLOUDSCALE_ACCESS_TOKEN"

// readOnlyToken opens the cloud of a story for looking only.
const readOnlyToken = "readonlytokenreadonlytokenreadon"

// cloudObjects are the objects of a kind in the cloud, by UUID or, of a floating IP,
// by address.
func (s *story) cloudObjects(kind cloudscale.Kind) (map[string]any, error) {
	out := map[string]any{}
	switch kind {
	case cloudscale.LoadBalancers:
		for _, o := range s.cloud.LoadBalancers() {
			out[o.UUID] = o
		}
	case cloudscale.Listeners:
		for _, o := range s.cloud.Listeners() {
			out[o.UUID] = o
		}
	case cloudscale.Pools:
		for _, o := range s.cloud.Pools() {
			out[o.UUID] = o
		}
	case cloudscale.Members:
		for _, o := range s.cloud.Members("") {
			out[o.UUID] = o
		}
	case cloudscale.HealthMonitors:
		for _, o := range s.cloud.HealthMonitors() {
			out[o.UUID] = o
		}
	case cloudscale.FloatingIPs:
		for _, o := range s.cloud.FloatingIPs() {
			out[o.Prefix.String()] = o
		}
	default:
		return nil, fmt.Errorf("the cloud has no %s", kind)
	}
	return out, nil
}

// cloudHas compares how many objects of a kind there are, and each of them with
// expressions.
func (s *story) cloudHas(args []string) error {
	objects, err := s.cloudObjects(cloudscale.Kind(args[0]))
	if err != nil {
		return err
	}
	if fmt.Sprint(len(objects)) != args[1] {
		return fmt.Errorf("there are %d: %v", len(objects), objects)
	}
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		for _, expression := range args[2:] {
			if like, err := regexp.Match(expression, text); err != nil {
				return err
			} else if !like {
				return fmt.Errorf("%s is not in %s", expression, text)
			}
		}
	}
	return nil
}

// cloudDo is what happens in the cloud without the controller.
func (s *story) cloudDo(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "node":
		s.cloud.AddNode(s.t, s.rig.Kube, args[1])
	case len(args) == 2 && args[0] == "floating-ip":
		prefix, err := netip.ParsePrefix(args[1])
		if err != nil {
			return err
		}
		s.cloud.AddFloatingIP(cloudscale.FloatingIP{Prefix: prefix, Region: "rma"})
	case len(args) == 3 && args[0] == "edit":
		objects, err := s.cloudObjects(cloudscale.Kind(args[1]))
		if err != nil {
			return err
		}
		for id := range objects {
			if err := s.cloud.Edit(cloudscale.Kind(args[1]), id, args[2]); err != nil {
				return err
			}
		}
	case len(args) == 1 && args[0] == "mark":
		s.cloud.ResetLog()
	case len(args) == 1 && args[0] == "unchanged":
		for _, r := range s.cloud.Log() {
			if r.Method != http.MethodGet {
				return fmt.Errorf("%s %s", r.Method, r.Path)
			}
		}
	default:
		return errors.New("usage: cloud node NAME | floating-ip PREFIX | edit KIND JSON | mark | unchanged")
	}
	return nil
}

// nodes makes the nodes that every story in the cloud begins with, and forgets the
// events of the one before: those of load balancers outlive their Services.
func (s *story) nodes() error {
	events := s.rig.Kube.CoreV1().Events(metav1.NamespaceDefault)
	if err := events.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	for _, name := range []string{"node-1", "node-2"} {
		s.cloud.AddNode(s.t, s.rig.Kube, name)
	}
	return nil
}

// reported waits for an event on a Service that may be gone.
func (s *story) reported(args []string) error {
	namespace, name, _ := strings.Cut(args[0], "/")
	list, err := s.rig.Kube.CoreV1().Events(namespace).List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return err
	}
	return oneLike(list.Items, args[1], args[2:])
}
