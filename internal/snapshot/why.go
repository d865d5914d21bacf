package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	backendovn "fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/reasons"
)

// Mark says whether a step of the chain holds.
type Mark string

// All marks. What was not looked at because an earlier step failed is Skipped. What may
// matter, and breaks nothing by itself, is Noted.
const (
	Passed  Mark = "passed"
	Failed  Mark = "failed"
	Unclear Mark = "unknown"
	Skipped Mark = "skipped"
	Noted   Mark = "noted"
)

// Step of the chain from the Service to the node that answers.
type Step struct {
	Name string `json:"name"`
	Mark Mark   `json:"mark"`
	// Fact is what was found.
	Fact   string `json:"fact"`
	Reason string `json:"reason,omitempty"`
	// Nodes are those that cannot announce the address, and why.
	Nodes []NodeFact `json:"nodes,omitempty"`
	// Fix are commands, or sentences, that would help.
	Fix []string `json:"fix,omitempty"`
}

// NodeFact is why one node cannot announce an address.
type NodeFact struct {
	Node     string `json:"node"`
	Obstacle string `json:"obstacle"`
}

// Why is the whole chain of one Service: the answer of "kubectl fairlead why".
type Why struct {
	Time      metav1.Time `json:"time"`
	Service   string      `json:"service,omitempty"`
	Addresses []string    `json:"addresses,omitempty"`
	State     State       `json:"state"`
	Steps     []Step      `json:"steps"`
	Unknown   []string    `json:"unknown,omitempty"`
}

// Health sums up. What could not be read makes it Unknown, unless a step fails: a step
// rests on what is known, or is unclear itself.
func (w *Why) Health() Health {
	if h := w.stepsHealth(); h != Healthy || len(w.Unknown) == 0 {
		return h
	}
	return Unknown
}

// stepsHealth is what the steps come to.
func (w *Why) stepsHealth() Health {
	unclear := false
	for _, s := range w.Steps {
		if s.Mark == Failed {
			return Problems
		}
		unclear = unclear || s.Mark == Unclear
	}
	if unclear {
		return Unknown
	}
	return Healthy
}

// add appends a step. After one that has failed, later ones that depend on it are not
// looked at.
func (w *Why) add(s Step) bool {
	w.Steps = append(w.Steps, s)
	return s.Mark != Failed
}

// verdict is the state that the steps come to. Conditions may lag behind them, and a Service
// that has just lost its endpoints has none.
func (w *Why) verdict() State {
	switch health := w.stepsHealth(); {
	case health == Problems && w.State == OK && !slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Mark == Failed && s.Name != stepNameController }):
		return Unattended
	case health == Problems && w.State == OK:
		return Unreachable
	case health == Unknown && w.State == OK:
		return Unsure
	case health == Healthy && (w.State == Waiting || w.State == Unreachable):
		return OK
	}
	return w.State
}

// WhyService explains how a Service of the cluster stands.
func (s *Snapshot) WhyService(key types.NamespacedName) *Why {
	w := s.chain(key)
	w.State = w.verdict()
	if of := s.Service(key); of != nil && of.Class != nil && w.Health() == Problems {
		s.noteConfiguration(w)
	}
	return w
}

// chain looks at one step after the other.
func (s *Snapshot) chain(key types.NamespacedName) *Why {
	w := &Why{Time: metav1.NewTime(s.At), Service: key.String(), Unknown: s.Unknown, State: NotServed}
	if s.cannot("services") {
		w.State = Unsure
		w.add(unclear("Service", s.unread("services")))
		return w
	}
	object := s.Object(key)
	if object == nil {
		w.State = Missing
		w.add(Step{Name: "Service", Mark: Failed, Fact: "There is no Service " + key.String() + ".", Fix: []string{"kubectl get services -A"}})
		return w
	}
	of := s.Service(key)
	if of == nil {
		w.add(Step{Name: "type", Mark: Failed, Fact: fmt.Sprintf("The type is %s, not LoadBalancer.", object.Spec.Type),
			Fix: []string{fmt.Sprintf(`kubectl patch service -n %s %s -p '{"spec":{"type":"LoadBalancer"}}'`, key.Namespace, key.Name)}})
		return w
	}
	state := s.stateOf(of)
	w.State, w.Addresses = state.State, state.Addresses
	if !w.add(s.stepClass(of)) || of.Class == nil || of.Ignored != "" {
		return w
	}
	w.add(s.stepController())
	if of.Class.Backend == config.OVN && !w.add(s.stepProject(of)) && len(w.Addresses) == 0 {
		return w
	}
	address := s.stepAddress(of)
	w.add(address)
	switch {
	case len(w.Addresses) == 0 && address.Mark == Passed:
		w.add(s.stepWritten(of))
		return w
	case len(w.Addresses) == 0:
		return w
	}
	w.add(s.stepEndpoints(of))
	if !of.Announced {
		w.add(s.stepElsewhere(of))
		return w
	}
	for _, a := range of.Published() {
		w.add(s.stepAnnounced(of, a))
		if step, also := s.stepAlsoRouted(of, a); also {
			w.add(step)
		}
	}
	return w
}

// stepClass says whether a class serves the Service.
func (s *Snapshot) stepClass(of *controller.Surveyed) Step {
	name := "Services without a class"
	if of.Service.Class != "" {
		name = fmt.Sprintf("class %q", of.Service.Class)
	}
	switch {
	case s.Install.Assumed != "":
		return unclear("class", s.Install.Assumed+", so the classes that are served are not known")
	case of.Class == nil:
		fix := fmt.Sprintf("Add the class to the configuration (%s), or create the Service again: its class is immutable.", s.Install.ConfigFrom)
		return Step{Name: "class", Mark: Failed, Fact: fmt.Sprintf("The configuration does not serve %s. It serves %s.", name, s.classes()), Fix: []string{fix}}
	case of.Ignored != "":
		return Step{Name: "class", Mark: Failed, Fact: "Fairlead leaves the Service alone: " + of.Ignored + ".", Fix: []string{"Remove the annotation."}}
	}
	return Step{Name: "class", Mark: Passed, Fact: fmt.Sprintf("%s: served by backend %s", name, of.Class.Backend)}
}

// classes that are served, in words.
func (s *Snapshot) classes() string {
	var out []string
	for _, c := range s.Config.Classes {
		if c.Name == "" {
			out = append(out, "Services without a class")
		} else {
			out = append(out, fmt.Sprintf("%q", c.Name))
		}
	}
	return prose.And(out)
}

// stepNameController is the name of the step about the controller.
const stepNameController = "controller"

// stepController says whether a controller leads.
func (s *Snapshot) stepController() Step {
	var found Status
	c := s.controllers(&found)
	switch {
	case c.Unknown != "":
		return unclear(stepNameController, c.Unknown)
	case len(found.Problems) > 0 && c.Leader == "":
		return Step{Name: stepNameController, Mark: Failed, Fact: found.Problems[0].Message, Fix: []string{found.Problems[0].Next}}
	}
	return Step{Name: stepNameController, Mark: Passed, Fact: "leader " + c.Leader}
}

// stepAddress says whether the Service has the addresses that it asks for.
func (s *Snapshot) stepAddress(of *controller.Surveyed) Step {
	if why := s.undecided(of); why != "" {
		return unclear("address", why)
	}
	reason := s.reasonOf(of)
	step := Step{Name: "address", Mark: Passed, Reason: string(reason.Code)}
	addresses := s.stateOf(of).Addresses
	switch has := len(addresses) > 0; {
	case !has && of.Settled && of.Verdict.Reason.Ready() && len(of.Verdict.Addresses) > 0 && (of.Says == nil || of.Says.True):
		step.Reason = ""
		step.Fact = fmt.Sprintf("%s is decided, from %s", prose.Addrs(of.Verdict.Addresses), s.from(of))
		return step
	case !has || of.Says != nil && !of.Says.True || of.Says == nil && of.Settled && !of.Verdict.Reason.Ready():
		step.Mark, step.Fact = Failed, reason.Text
		step.Fix = s.adviceFor(of, reason.Code)
		return step
	case of.Settled && s.Undecided() == "":
		step.Fact = fmt.Sprintf("%s from %s", strings.Join(addresses, ", "), s.from(of))
	default:
		step.Fact = strings.Join(addresses, ", ")
		if b, known := s.bindingOf(of); known && b.EIp != "" {
			step.Fact += fmt.Sprintf(" of EIp %q", b.EIp)
		}
	}
	if reasons.All[reason.Code].Warning { // a reason that was read knows only whether it is one of the core's
		step.Fact += ". " + reason.Text
	}
	return step
}

// from says from which pools the addresses are, and how full these are.
func (s *Snapshot) from(of *controller.Surveyed) string {
	var out []string
	for _, key := range of.Verdict.Pools {
		text := fmt.Sprintf("pool %q", key)
		if p, ok := s.pool(key); ok && p.fullness() != "" {
			text += " (" + p.fullness() + ")"
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "no pool"
	}
	return prose.And(out)
}

// adviceFor are commands that help with a reason for which a Service has no address.
func (s *Snapshot) adviceFor(of *controller.Surveyed, code lb.Code) (out []string) {
	switch code {
	case lb.NoPool:
		out = append(out, "kubectl apply -f - <<< '{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.0/29]}}'   # with your addresses")
	case lb.PoolExhausted, lb.QuotaExceeded, lb.FamilyUnavailable:
		out = append(out, "kubectl fairlead ip --by-namespace")
	case lb.AddressInUse, lb.AddressReserved, lb.AddressIsNode, lb.AddressOwned, lb.AddressNotInPool, lb.SharingConflict:
		for _, a := range of.Request.Addresses {
			out = append(out, "kubectl fairlead why "+a.String())
		}
	case backendovn.NorthboundUnavailable:
		out = append(out, "kubectl get pods -n kube-system -l app=ovn-central")
	case backendovn.RouterMissing, backendovn.SwitchMissing, backendovn.GatewayMissing:
		out = append(out, "kubectl get vpcs.kubeovn.io,subnets.kubeovn.io")
	case eip.AddressPending:
		out = append(out, "kubectl get ovn-eips.kubeovn.io,subnets.kubeovn.io")
	case eip.EIpMissing, eip.EIpTaken, eip.PortConflict:
		out = append(out, "kubectl get eip,fip -n "+of.Key.Namespace)
	default: // others have a sentence
	}
	if do := reasons.All[code].Do; do != "" {
		out = append(out, do)
	}
	return out
}

// stepWritten says of a Service for which addresses are decided that nobody has written
// them.
func (s *Snapshot) stepWritten(of *controller.Surveyed) Step {
	return Step{Name: "status", Mark: Failed, Fact: "The address is not in the status of the Service: the controller has not written it yet, or cannot.",
		Fix: []string{"kubectl fairlead status", "kubectl logs -A -l " + labelName + "=" + labelFairlead + "," + labelComponent + "=" + labelController}}
}

// stepEndpoints says whether a pod serves.
func (s *Snapshot) stepEndpoints(of *controller.Surveyed) Step {
	if s.cannot("endpointslices") {
		return unclear("endpoints", s.unread("endpointslices"))
	}
	nodes := map[string]bool{}
	for _, names := range servingOf(s.objects)[of.Key] {
		for name := range names.Serving {
			nodes[name] = true
		}
	}
	if len(nodes) == 0 {
		step := Step{Name: "endpoints", Mark: Failed, Reason: string(lb.NoServingEndpoint), Fact: "No pod of the Service serves."}
		if len(of.Selector) > 0 {
			step.Fix = []string{fmt.Sprintf("kubectl get pods -n %s -l %s", of.Key.Namespace, selectorText(of.Selector))}
		} else {
			step.Fix = []string{fmt.Sprintf("kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s", of.Key.Namespace, of.Key.Name)}
		}
		return step
	}
	var names []string
	for name := range nodes {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	fact := "outside of the cluster"
	if len(names) > 0 {
		fact = "pods serve on " + prose.Few(names)
	}
	return Step{Name: "endpoints", Mark: Passed, Fact: fact}
}

func selectorText(of map[string]string) string {
	var out []string
	for k, v := range of {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// stepElsewhere says of a Service whose addresses no agent announces who makes them
// reachable.
func (s *Snapshot) stepElsewhere(of *controller.Surveyed) Step {
	if s.Install.Assumed != "" && of.Unannounced == nil {
		return unclear("reachable", s.Install.Assumed)
	}
	by := "the cloud"
	if of.Class.Backend == config.KubeVIP {
		by = "kube-vip"
	}
	step := Step{Name: "reachable", Mark: Passed, Fact: by + " leads traffic to the nodes; Fairlead does not check that"}
	if of.Class.Backend == config.OVN {
		step = s.stepRouter(of)
	}
	if of.Unannounced != nil {
		step.Mark, step.Reason, step.Fact = Failed, string(of.Unannounced.Code), of.Unannounced.Text
	}
	return step
}

// nodeNames of all Nodes.
func nodeNames(nodes []corev1.Node) (out []string) {
	for i := range nodes {
		out = append(out, nodes[i].Name)
	}
	return out
}

// WhyAddress explains whose an address is. One that Services have is their chain.
func (s *Snapshot) WhyAddress(a netip.Addr) []*Why {
	var out []*Why
	if s.Survey == nil {
		return []*Why{{Time: metav1.NewTime(s.At), Addresses: []string{a.String()}, State: Unsure, Unknown: s.Unknown, Steps: []Step{{Name: "address", Mark: Unclear, Fact: "unknown: cannot list services"}}}}
	}
	for i := range s.Survey.Services {
		of := &s.Survey.Services[i]
		if slices.Contains(of.Published(), a) || of.Settled && slices.Contains(of.Verdict.Addresses, a) {
			out = append(out, s.WhyService(of.Key))
		}
	}
	if len(out) > 0 {
		return out
	}
	w := &Why{Time: metav1.NewTime(s.At), Addresses: []string{a.String()}, Unknown: s.Unknown, State: NotServed}
	w.add(Step{Name: "Service", Mark: Failed, Fact: "No Service has this address."})
	if node := nodeAddresses(s.Nodes)[a]; node != "" {
		w.add(Step{Name: "owner", Mark: Failed, Reason: string(lb.AddressIsNode), Fact: "It is an address of node " + node + ": no Service may have it."})
	}
	pools := s.poolsWith(a)
	if why := s.Undecided(); len(pools) == 0 && why != "" {
		w.add(unclear("pool", why))
	} else if len(pools) == 0 {
		w.add(Step{Name: "pool", Mark: Failed, Reason: string(lb.AddressNotInPool), Fact: "No pool contains it.", Fix: []string{"kubectl fairlead ip"}})
	}
	for _, p := range pools {
		switch reserved, is := p.Reserved[a]; {
		case p.Excludes(a):
			w.add(Step{Name: "pool", Mark: Failed, Fact: fmt.Sprintf("Pool %q excludes it.", p.Key)})
		case is:
			w.add(Step{Name: "pool", Mark: Passed, Reason: string(lb.AddressReserved), Fact: fmt.Sprintf("Pool %q reserves it for Service %s.", p.Key, reserved)})
		default:
			w.add(Step{Name: "pool", Mark: Passed, Fact: fmt.Sprintf("Pool %q contains it.", p.Key)})
		}
	}
	return []*Why{w}
}
