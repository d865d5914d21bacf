package main

import (
	"fairlead.io/internal/eip"
	"fairlead.io/internal/routes"
)

// kubedcPage has what Services in projects of kube-dc can ask for, and what is written on
// the objects behind their addresses.
func kubedcPage(p *page) error {
	p.title("kube-dc", "internal/compat/kubedc and internal/eip", `The annotations of kube-dc on Services of type LoadBalancer, and those of namespaces without
kube-dc. `+"`spec.loadBalancerIP`"+` and [Fairlead's own annotations](annotations.md) count as in every class.
Annotations `+"`ovn.kubernetes.io/…`"+` of Services have no meaning.`)
	if err := constants(p, "internal/compat/kubedc/annotation.go"); err != nil {
		return err
	}
	p.heading("Marks on EIps and OvnEips")
	p.printf("Fairlead recognises what it has made by these. Labels of OvnEips are evidence, because tenants\ncannot write them.\n\n")
	p.table("mark", "on", "meaning")
	p.row("finalizer `"+eip.Finalizer+"`", "EIp", "it stays until nobody uses its address, and its OvnEip is deleted")
	p.row("label `"+eip.LabelService+"`", "EIp", "Fairlead made it for the Service with this UID, and deletes it when no Service uses it")
	p.row("annotation `"+eip.AnnotationAddress+"`", "EIp", "address to request from kube-ovn; a change has no effect on an EIp that has an address")
	p.row("annotation `"+eip.AnnotationAddress+"`", "OvnEip", "address that was requested")
	p.row("label `"+eip.LabelNamespace+"`", "OvnEip", "namespace of its EIp; set by an administrator, it lets EIps of this namespace refer to the OvnEip in `childRef`")
	p.row("label `"+eip.LabelName+"`", "OvnEip", "name of its EIp")
	p.row("label `"+eip.LabelUID+"`", "OvnEip", "UID of its EIp; Fairlead deletes the OvnEip with it")
	p.row("annotation `"+routes.Annotation+"`", "Vpc", "the entries of `policyRoutes` that Fairlead made, by Service; it changes and removes only these")
	return nil
}
