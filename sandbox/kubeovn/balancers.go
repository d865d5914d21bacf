package kubeovn

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// protocols for which every Vpc has load balancers.
var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

// balancer is the name of a Vpc's load balancer with ClusterIPs.
func balancer(vpc string, p corev1.Protocol) string {
	return "vpc-" + vpc + "-" + strings.ToLower(string(p)) + "-load"
}

// clusterIPs returns the VIPs of each Vpc's load balancers: the ClusterIPs of Services in
// its namespaces, with their ready endpoints.
func (n *Network) clusterIPs(ctx context.Context, w world) (map[string]map[string]string, error) {
	var services corev1.ServiceList
	var slicesList discoveryv1.EndpointSliceList
	if err := n.cache.List(ctx, &services); err != nil {
		return nil, err
	}
	if err := n.cache.List(ctx, &slicesList); err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, v := range w.vpcs {
		for _, p := range protocols {
			out[balancer(v.Metadata.Name, p)] = map[string]string{}
		}
		for _, s := range services.Items {
			if !slices.Contains(v.Spec.Namespaces, s.Namespace) {
				continue
			}
			for _, ip := range s.Spec.ClusterIPs {
				for _, port := range s.Spec.Ports {
					if ip != corev1.ClusterIPNone {
						out[balancer(v.Metadata.Name, port.Protocol)][net.JoinHostPort(ip, strconv.Itoa(int(port.Port)))] = backends(s, port, ip, slicesList.Items)
					}
				}
			}
		}
	}
	return out, nil
}

func backends(s corev1.Service, port corev1.ServicePort, ip string, all []discoveryv1.EndpointSlice) string {
	var found []string
	for _, slice := range all {
		if slice.Namespace != s.Namespace || slice.Labels[discoveryv1.LabelServiceName] != s.Name || (slice.AddressType == discoveryv1.AddressTypeIPv6) != strings.Contains(ip, ":") {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || p.Protocol == nil || *p.Protocol != port.Protocol || p.Name != nil && *p.Name != port.Name {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					found = append(found, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ",")
}

// balancers makes the Vpcs' load balancers and attaches them to their switches.
func balancers(add func(...string), now rows, w world) {
	for _, v := range w.vpcs {
		for _, p := range protocols {
			name := balancer(v.Metadata.Name, p)
			vips := w.lbs[name]
			is := now.named("Load_Balancer", name)
			ref := "@" + name
			if is == nil {
				add(append([]string{"--id=" + ref, "create", "Load_Balancer", "name=" + name, "protocol=" + strings.ToLower(string(p)), "external_ids:vendor=" + vendor}, prefixed("vips:", vips)...)...)
			} else {
				ref = is.uuid
				if !maps.Equal(is.maps["vips"], vips) {
					add("clear", "Load_Balancer", ref, "vips")
					if len(vips) > 0 {
						add(append([]string{"set", "Load_Balancer", ref}, prefixed("vips:", vips)...)...)
					}
				}
			}
			for _, s := range w.subnets {
				if s.Spec.Vpc != v.Metadata.Name || !overlay(s) {
					continue
				}
				if ls := now.named("Logical_Switch", s.Name); ls == nil || !slices.Contains(ls.sets["load_balancer"], ref) {
					add("add", "Logical_Switch", s.Name, "load_balancer", ref)
				}
			}
		}
	}
	for _, l := range now["Load_Balancer"] {
		if _, wanted := w.lbs[l.name]; l.ours() && !wanted && strings.HasPrefix(l.name, "vpc-") {
			add("--if-exists", "lb-del", l.uuid)
		}
	}
}

// CollectGarbage is what kube-ovn-controller does at every start: it deletes all load
// balancers whose names are neither those of Vpcs nor of OvnDnatRules. Nobody asks whose
// they are.
func (n *Network) CollectGarbage(ctx context.Context) error {
	w, err := n.read(ctx)
	if err != nil {
		return err
	}
	now, err := n.readRows(ctx)
	if err != nil {
		return err
	}
	if err := n.do(ctx, garbage(w, now)); err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	return nil
}

func garbage(w world, now rows) (do [][]string) {
	for _, l := range now["Load_Balancer"] {
		_, ofVpc := w.lbs[strings.Replace(l.name, "-sess-load", "-load", 1)]
		if !ofVpc && !slices.ContainsFunc(w.rules, func(r rule) bool { return r.kind == dnatRule && r.name == l.name }) {
			do = append(do, []string{"--if-exists", "lb-del", l.uuid})
		}
	}
	return do
}
