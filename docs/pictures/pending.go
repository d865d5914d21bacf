package pictures

// pending draws how to find out why a Service does not work.
func pending() *picture {
	p := &picture{name: "pending", width: 960, height: 648, title: "Why is my Service pending? Questions in their order, and what to do for each answer"}
	p.text(24, 34, "head", "Why is my Service pending, or not reachable?")
	p.text(24, 56, "soft", "“kubectl fairlead why NAME” answers all but the last for you.")
	questions := []struct {
		ask, look string
		no        []string
	}{
		{"Does Fairlead serve the Service?", "spec.type: LoadBalancer, and a class that is served", []string{"No event, no condition.", "Add the class, or create the Service again without it."}},
		{"Is the controller running?", "kubectl get pods -A -l app.kubernetes.io/name=fairlead", []string{"No event, no condition.", "Look at the pods and their log; may it write Services?"}},
		{"Does the Service have an address?", "kubectl get service NAME", []string{"Event and condition name the reason, and what to do:", "NoPool · PoolExhausted · QuotaExceeded · …"}},
		{"Does a pod serve it?", "kubectl get endpointslices", []string{"NoServingEndpoint: no node announces the address.", "With externalTrafficPolicy Local, a pod on an eligible node."}},
		{"Does a node announce it?", "event Announced or Moved; kubectl get agents", []string{"Condition fairlead.io/Announced=False has the reason:", "NotAnnounced · AddressConflict · NoAgent · …"}},
		{"Does the client reach that node?", "ip neighbour on the client: the MAC of that node", []string{"A switch or router has an old entry, or filters ARP.", "See “The address does not answer”."}},
	}
	const left, width, height, gap, top = 24, 440, 62, 28, 80
	for i, q := range questions {
		a := area{left, top + i*(height+gap), width, height}
		p.rect(a, "box")
		p.text(a.x+16, a.y+26, "strong", q.ask)
		p.text(a.x+16, a.y+46, "code soft", q.look)
		answer := area{528, a.y, 408, height}
		p.rect(answer, "warn")
		p.lines(answer.x+14, answer.y+26, "soft", q.no...)
		p.arrow(a.right(), a.centre(), answer.x-2, a.centre())
		p.text(a.right()+22, a.centre()-7, "soft", "no")
		p.activeArrow(a.middle(), a.bottom(), a.middle(), a.bottom()+gap-2)
		p.text(a.middle()+10, a.bottom()+19, "soft", "yes")
	}
	p.text(left+width/2, top+len(questions)*(height+gap)+16, "middle strong", "It works.")
	return p
}
