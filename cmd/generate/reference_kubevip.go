package main

import (
	"strings"

	"fairlead.io/internal/config"
)

// kubevipPage has what Fairlead reads of kube-vip's and of its cloud provider's: the
// ConfigMap, annotations and variables.
func kubevipPage(p *page) error {
	p.title("kube-vip", "internal/compat/kubevip and internal/config", `What is read of kube-vip, and of kube-vip-cloud-provider, which gives addresses to Services
that kube-vip announces: the ConfigMap with the addresses, the annotations of Services, and the
environment of both programs. "Impact" says what happens to Services that are already served when
something is changed.

The ConfigMap is kubevip in the namespace kube-system, unless the environment says otherwise.
All its values are texts. A value that cannot be used stops no other key; an event on the
ConfigMap tells of it. Its pools are for Services whose class may use pools of kube-vip's
([`+"`classes[].pools`"+`](configuration.md)), which is so if nothing else is said.`)
	if err := constants(p, "internal/compat/kubevip/key.go", "internal/compat/kubevip/annotation.go", "internal/config/kubevip.go"); err != nil {
		return err
	}
	p.heading("Variables of kube-vip's own DaemonSet")
	p.printf(`Read by the agents, in whose place the DaemonSet was; the chart's value ` + "`kubeVip.env`" + ` passes them.
Those that begin with lb_class_ have to be the same for the controller, which the chart sees to;
they count in place of the classes of the configuration. A value that cannot be understood ends
the daemon with a sentence about it. What is not in these tables is not read: most of it is for
the address of the control plane.

`)
	for _, group := range []struct {
		head string
		heed config.Heed
	}{
		{"what it does", config.Heeded},
		{"not needed, which is logged, because", config.Needless},
		{"not served, which is logged as a warning, for", config.Unserved},
	} {
		p.table("variable", group.head)
		for i, v := range config.KubeVIPVariables {
			if v.Heed != group.heed || i > 0 && config.KubeVIPVariables[i-1].Note == v.Note {
				continue
			}
			var names []string
			for _, same := range config.KubeVIPVariables[i:] {
				if same.Note != v.Note {
					break
				}
				names = append(names, "`"+same.Name+"`")
			}
			p.row(strings.Join(names, " "), v.Note)
		}
		p.printf("\n")
	}
	return nil
}
