package main

import (
	"strings"

	"fairlead.io/internal/config"
)

// kubevipPage has what Fairlead reads of kube-vip's and of its cloud provider's: the
// ConfigMap, annotations and variables.
func kubevipPage(p *page) error {
	p.title("kube-vip", "internal/compat/kubevip and internal/config", `Configuration of kube-vip and kube-vip-cloud-provider that Fairlead reads: the ConfigMap with the
addresses, the annotations of Services, and the environment variables of both programs.
kube-vip-cloud-provider assigns addresses to Services, and kube-vip announces them. "Impact" is the
effect of a change on Services that are already served.

The default ConfigMap is kubevip in the namespace kube-system. All its values are strings. An
invalid value does not affect other keys; an event on the ConfigMap reports it. Services can use its
pools if their class may use the format kube-vip ([`+"`classes[].pools`"+`](configuration.md)), which is
the default.`)
	if err := constants(p, "internal/compat/kubevip/key.go", "internal/compat/kubevip/annotation.go", "internal/config/kubevip.go"); err != nil {
		return err
	}
	p.heading("Environment variables of kube-vip's own DaemonSet")
	p.printf(`The agents, which replace the DaemonSet, read these variables. Pass them with the chart's value
` + "`kubeVip.env`" + `. Variables that start with lb_class_ must be the same for the controller; the chart takes
care of that. They override the classes of the configuration. With an invalid value, the program exits
with an error. Variables that are not in these tables are ignored; most of them are for the control-plane
address.

`)
	for _, group := range []struct {
		head   string
		effect config.Effect
	}{
		{"effect", config.Effective},
		{"not needed, logged as information, because", config.NotNeeded},
		{"not supported, logged as a warning, because", config.Unserved},
	} {
		p.table("variable", group.head)
		for i, v := range config.KubeVIPVariables {
			if v.Effect != group.effect || i > 0 && config.KubeVIPVariables[i-1].Note == v.Note {
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
