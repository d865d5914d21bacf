package kubeovn

import (
	"context"
	"fmt"
	"net"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "fairlead.io/api/kubeovn"
)

// Kinds of rules that translate addresses.
const (
	snatRule = "OvnSnatRule"
	fipRule  = "OvnFip"
	dnatRule = "OvnDnatRule"
)

var ruleKinds = []string{snatRule, fipRule}

// rule is an OvnSnatRule, OvnFip or OvnDnatRule.
type rule struct {
	kind, name, vpc, eip string
	external             string // address of the OvnEip; "" if there is none yet
	internal             string // address or network of the Vpc
}

// nat is the type of a rule's row.
func (r rule) nat() string {
	return map[string]string{snatRule: "snat", fipRule: "dnat_and_snat"}[r.kind]
}

// readRules reads those whose CRDs are there.
func (n *Network) readRules(ctx context.Context, w world) ([]rule, error) {
	var all []rule
	for _, kind := range append([]string{dnatRule}, ruleKinds...) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(api.GroupVersion.WithKind(kind + "List"))
		err := n.client.List(ctx, list)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			text := func(key string) string {
				s, _, _ := unstructured.NestedString(o.Object, "spec", key)
				return s
			}
			r := rule{kind: kind, name: o.GetName(), vpc: text("vpc"), eip: text("ovnEip"), internal: text("v4IpCidr")}
			if kind != snatRule {
				r.internal = text("v4Ip")
			}
			if i := slices.IndexFunc(w.eips, func(e api.OvnEip) bool { return e.Name == r.eip && e.Status.Ready }); i >= 0 {
				r.external = w.eips[i].Status.V4IP
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// translations makes the NAT rows of a router what its rules say. Rows that others have
// made stay.
func translations(add func(...string), now rows, router row, name string, rules []rule) {
	type key struct{ kind, external, internal string }
	there := map[key]bool{}
	wanted := map[key]string{}
	for _, r := range rules {
		if r.vpc == name && r.nat() != "" && net.ParseIP(r.external) != nil {
			wanted[key{r.nat(), r.external, r.internal}] = r.name
		}
	}
	for _, row := range now["NAT"] {
		if !slices.Contains(router.sets["nat"], row.uuid) {
			continue
		}
		is := key{row.text["type"], row.text["external_ip"], row.text["logical_ip"]}
		there[is] = true
		if _, ok := wanted[is]; !ok && row.ours() {
			add("remove", "Logical_Router", name, "nat", row.uuid)
		}
	}
	n := 0
	for k := range wanted {
		if there[k] {
			continue
		}
		n++
		id := fmt.Sprintf("@nat-%s-%d", name, n)
		add("--id="+id, "create", "NAT", "type="+k.kind, fmt.Sprintf("external_ip=%q", k.external), fmt.Sprintf("logical_ip=%q", k.internal), "external_ids:vendor="+vendor)
		add("add", "Logical_Router", name, "nat", id)
	}
}
