package failover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
)

const metallbNamespace = "metallb-system"

// installMetalLB installs MetalLB's kinds, which agents and controller do not
// wait for, and makes a pool of addresses beside the nodes' own.
func installMetalLB(t *testing.T, addresses ...string) {
	t.Helper()
	eventually(t, func() error {
		all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metallbNamespace}}}
		for _, crd := range charts.MetalLBCRDs() {
			all = append(all, crd)
		}
		for _, o := range all {
			if err := api.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return api.List(t.Context(), &metallb.IPAddressPoolList{})
	})
	pool := &metallb.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: metallbNamespace, Name: "edge"}}
	pool.Spec.Addresses = addresses
	pool.Spec.AutoAssign = ptr.To(false)
	create(t, pool)
}

// advertise changes how the pool is advertised.
func advertise(t *testing.T, change func(*metallb.L2AdvertisementSpec)) {
	t.Helper()
	ad := &metallb.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: metallbNamespace, Name: "edge"}}
	err := api.Get(t.Context(), client.ObjectKeyFromObject(ad), ad)
	if apierrors.IsNotFound(err) {
		change(&ad.Spec)
		create(t, ad)
		return
	}
	if err == nil {
		ad.Spec = metallb.L2AdvertisementSpec{}
		change(&ad.Spec)
		err = api.Update(t.Context(), ad)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ofMetalLB has a Service ask for an address of that pool.
func ofMetalLB(s *corev1.Service) {
	s.Annotations = map[string]string{"metallb.io/address-pool": "edge"}
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = ptr.To(corev1.IPFamilyPolicySingleStack), []corev1.IPFamily{corev1.IPv4Protocol}
}

// l2Statuses returns what the objects say of a Service: "node interfaces…".
func l2Statuses(ctx context.Context, service string) ([]string, error) {
	var list metallb.ServiceL2StatusList
	if err := api.List(ctx, &list, client.InNamespace(metallbNamespace), client.MatchingLabels{metallb.LabelServiceName: service}); err != nil {
		return nil, err
	}
	var out []string
	for _, o := range list.Items {
		text := []string{o.Status.Node}
		for _, i := range o.Status.Interfaces {
			text = append(text, i.Name)
		}
		out = append(out, strings.Join(text, " "))
	}
	slices.Sort(out)
	return out, nil
}

func awaitL2Status(t *testing.T, service string, want ...string) {
	t.Helper()
	eventually(t, func() error {
		got, err := l2Statuses(t.Context(), service)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("ServiceL2Status of %s says %q, want %q", service, got, want)
		}
		return err
	})
}

// awaitEvent waits for an event on a Service of this reason and with this text.
func awaitEvent(t *testing.T, service, component, reason, text string) {
	t.Helper()
	eventually(t, func() error {
		var list corev1.EventList
		if err := api.List(t.Context(), &list, client.InNamespace("default")); err != nil {
			return err
		}
		var said []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name != service || e.Source.Component != component {
				continue
			}
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event %s %q of %s, but %q", reason, text, component, said)
	})
}

// nobodyHas waits until no node has the addresses of Services.
func nobodyHas(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		where, err := interfaces()
		if err == nil && len(where) > 0 {
			err = fmt.Errorf("addresses are on %v", where)
		}
		return err
	})
}

// A Service with an address of MetalLB's kind of pool: who announces it, as its
// advertisements say, and what MetalLB's people see of it.
func TestMetalLB(t *testing.T) {
	showLogs(t)
	agentsRun(t, nodes...)
	installMetalLB(t, "10.77.0.230-10.77.0.239")
	advertise(t, func(s *metallb.L2AdvertisementSpec) { s.IPAddressPools = []string{"edge"} })
	w := newWorld(t, ofMetalLB)
	owner := w.settled()
	if want := netip.MustParseAddr("10.77.0.230"); w.addrs[0] != want {
		t.Fatalf("the address is %s", w.addrs[0])
	}
	awaitL2Status(t, "web", owner)
	awaitEvent(t, "web", "metallb-speaker", "nodeAssigned", fmt.Sprintf(`announcing from node %q with protocol "layer2"`, owner))
	if line := `"event":"serviceAnnounced","ips":["10.77.0.230"],"protocol":"layer2"`; !strings.Contains(running[owner].log.String(), line) {
		t.Errorf("the agent of %s has not logged %s", owner, line)
	}
	for _, node := range nodes {
		eventually(t, func() error {
			var state metallb.ConfigurationState
			err := api.Get(t.Context(), types.NamespacedName{Namespace: metallbNamespace, Name: "speaker-" + node}, &state)
			if err == nil && state.Status.Result != metallb.Valid {
				err = fmt.Errorf("the configuration is %q for %s: %s", state.Status.Result, node, state.Status.ErrorSummary)
			}
			return err
		})
	}

	// The agent ends for good: nothing of it is left.
	former := owner
	connections := connecting(t, w.addrs...)
	leaver := running[former]
	leaver.terminate(t)
	if owner = w.settled(); owner == former {
		t.Errorf("%s still has the address", former)
	}
	if failed := beyondHandOver(connections()); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
	awaitL2Status(t, "web", owner)
	var agent v1alpha1.Agent
	if err := api.Get(t.Context(), types.NamespacedName{Name: former}, &agent); err != nil || agent.Status.Announced != 0 || len(agent.Status.Addresses) > 0 {
		t.Errorf("the agent of %s, which has left, says %+v (%v)", former, agent.Status, err)
	}
	err := api.Get(t.Context(), types.NamespacedName{Namespace: metallbNamespace, Name: "speaker-" + former}, &metallb.ConfigurationState{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigurationState of %s, which has left: %v", former, err)
	}
	if log := leaver.log.String(); !strings.Contains(log, `"event":"serviceWithdrawn"`) {
		t.Errorf("the agent of %s has not logged that it withdraws:\n%s", former, log)
	}
	agentsRun(t, nodes...)

	// The agent crashes: the next one cleans up after it.
	former = owner
	running[former].kill(t)
	owner = w.moved(former)
	awaitL2Status(t, "web", owner)
	agentsRun(t, nodes...)
	w.settled()

	// Advertised from one node only, on an interface; then on one that is nowhere.
	only := others(owner)[0]
	advertise(t, func(s *metallb.L2AdvertisementSpec) {
		s.NodeSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{corev1.LabelHostname: only}}}
		s.Interfaces = []string{"eth0", "foo"}
	})
	if owner = w.moved(owner); owner != only {
		t.Errorf("%s has the address, not %s", owner, only)
	}
	w.settled()
	awaitL2Status(t, "web", only+" eth0")
	advertise(t, func(s *metallb.L2AdvertisementSpec) { s.Interfaces = []string{"foo"} })
	nobodyHas(t)
	awaitL2Status(t, "web")
	awaitEvent(t, "web", "metallb-speaker", "announceFailed", "has no interface for it that is up")

	// Advertised for other Services; then for this one.
	advertise(t, func(s *metallb.L2AdvertisementSpec) {
		s.ServiceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "other"}}}
	})
	awaitEvent(t, "web", "metallb-speaker", "announceFailed", "there is no advertisement for it")
	nobodyHas(t)
	if err := api.Patch(t.Context(), w.service, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`))); err != nil {
		t.Fatal(err)
	}
	owner = w.settled()
	awaitL2Status(t, "web", owner)
	if got := addressesOf(t, w.service); !slices.Equal(got, w.addrs) {
		t.Errorf("the Service has %v, not %v", got, w.addrs)
	}

	// The Service goes.
	if err := api.Delete(t.Context(), w.service); err != nil {
		t.Fatal(err)
	}
	awaitL2Status(t, "web")
	nobodyHas(t)
}

// A card that not every node has: one without it never has the address, although
// it would be the first, and one that gets it can.
func TestMetalLBInterfaceOfSomeNodes(t *testing.T) {
	installMetalLB(t, "10.77.0.230-10.77.0.239")
	advertise(t, func(s *metallb.L2AdvertisementSpec) { s.Interfaces = []string{card} })
	showLogs(t)
	agentsRun(t, nodes...)
	plug(t, "node2")
	w := newWorld(t, ofMetalLB)
	if owner := w.settled(); owner != "node2" {
		t.Errorf("%s has the address", owner)
	}
	awaitL2Status(t, "web", "node2 "+card)
	plug(t, "node3")
	during(t, 2*time.Second, func() error { return w.onlyAt("node2") })
	onHost(t, "node2", "ip", "link", "set", card, "down")
	if owner := w.moved("node2"); owner != "node3" {
		t.Errorf("%s has the address", owner)
	}
	awaitL2Status(t, "web", "node3 "+card)
	awaitEvent(t, "web", "metallb-speaker", "nodeAssigned", "node node2 has no interface for it that is up")
	if err := cluster.RemoveNIC(t.Context(), "node3", card); err != nil {
		t.Fatal(err)
	}
	nobodyHas(t)
}

// An address of a network that the nodes are not in is announced, and whoever
// wonders why no answers come is told.
func TestAddressOfNoNetwork(t *testing.T) {
	installMetalLB(t, "192.0.2.10-192.0.2.19")
	advertise(t, func(s *metallb.L2AdvertisementSpec) { s.Interfaces = []string{"eth0"} })
	showLogs(t)
	agentsRun(t, nodes...)
	w := &world{t: t, asker: newAsker(t)}
	w.service = newService(t, "far", ofMetalLB)
	w.addrs = addressesOf(t, w.service)
	var owner string
	eventually(t, func() (err error) {
		owner, err = w.owner()
		return err
	})
	awaitEvent(t, "far", "metallb-speaker", "OffSubnet", "is in none of the networks of node "+owner)
	during(t, 2*time.Second, func() error {
		var list corev1.EventList
		if err := api.List(t.Context(), &list, client.InNamespace("default")); err != nil {
			return err
		}
		n := 0
		for _, e := range list.Items {
			if e.InvolvedObject.UID == w.service.UID && e.Reason == "OffSubnet" {
				n++
			}
		}
		if n != 1 {
			return errors.New("it is told " + fmt.Sprint(n) + " times")
		}
		return nil
	})
}
