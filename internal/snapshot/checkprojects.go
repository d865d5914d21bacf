package snapshot

import (
	"fmt"
	"slices"

	"fairlead.io/api/kubedc"
	format "fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
)

// eip checks one EIp.
func (c *Checks) eip(e *kubedc.EIp) {
	x := Check{Name: "eip " + e.Namespace + "/" + e.Name, Mark: Passed, Fact: "an address of kube-ovn"}
	known := []string{format.Public, format.Cloud}
	switch kind := e.Spec.ExternalNetworkType; {
	case kind != "" && e.Spec.ChildRef != "":
		x.Mark, x.Fact, x.Fix = Failed, "spec.externalNetworkType and spec.childRef are both set.", "Remove one of them."
	case kind != "" && !slices.Contains(known, kind):
		x.Mark, x.Fact = Failed, fmt.Sprintf("spec.externalNetworkType %q is not a network type; available: %s and %s.", kind, format.Public, format.Cloud)
	case e.Spec.ChildRef != "":
		x.Fact = fmt.Sprintf("the address of OvnEip %q", e.Spec.ChildRef)
	}
	c.add(x)
}

// boundService checks a Service that gets the address of an EIp. It says whether something
// is wrong.
func (c *Checks) boundService(s *Snapshot, of *controller.Surveyed) bool {
	name := "service " + of.Key.String()
	for _, r := range format.Remarks(of.Service) {
		if r.Code == format.AnnotationIgnored {
			c.add(Check{Name: name, Mark: Skipped, Fact: r.Text, Reason: string(r.Code)})
		}
	}
	if _, problems := format.Read(of.Service, nil); len(problems) > 0 {
		for _, p := range problems {
			c.add(Check{Name: name, Mark: Failed, Fact: p + ".", Reason: string(lb.InvalidRequest)})
		}
		return true
	}
	b, known := s.bindingOf(of)
	if !known || b.Reason == nil {
		return false
	}
	// Whether an EIp exists, or kube-ovn has given it an address, files cannot say unless
	// they have EIps.
	aboutFiles := []lb.Code{lb.InvalidRequest, eip.PortConflict, eip.EIpTaken}
	if len(s.projects().book.EIps(of.Key.Namespace)) > 0 {
		aboutFiles = append(aboutFiles, eip.EIpMissing)
	}
	if !slices.Contains(aboutFiles, b.Reason.Code) {
		return false
	}
	c.add(Check{Name: name, Mark: Failed, Fact: b.Reason.Text, Reason: string(b.Reason.Code)})
	return true
}
