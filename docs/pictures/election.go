package pictures

// election draws how agents elect the node that announces an address.
func election() *picture {
	p := &picture{name: "election", width: 900, height: 530, title: "Which node announces an address: a node must pass every check, and the first by four rules gets it"}
	p.text(24, 34, "head", "Which node announces an address?")
	p.text(24, 56, "soft", "Every agent computes this from the same facts, so all agree without asking anybody.")
	p.text(24, 92, "strong", "A node must pass every check")
	checks := []string{
		"the pool's nodeSelectors select it",
		"no label exclude-from-external-load-balancers",
		"its agent is alive, its network available",
		"it has an interface of the pool, and the link is up",
		"its kernel answers there, and accepts the address",
		"externalTrafficPolicy Local: it runs a serving pod",
		"kube-proxy is, or was, healthy",
	}
	for i, c := range checks {
		a := area{24, 106 + i*46, 384, 36}
		p.rect(a, "box")
		p.text(a.x+16, a.y+23, "", c)
		if i > 0 {
			p.arrow(a.middle(), a.y-10, a.middle(), a.y-1)
		}
	}
	p.text(24, 462, "soft", "No node passes: the Service says so, with each node's reason (NotAnnounced).")
	p.text(470, 92, "strong", "Of those, the first rung that differs decides")
	rungs := [][2]string{
		{"Healthy first", "agent not ending, kube-proxy healthy, not cordoned"},
		{"Preferred", "highest sum of weights in advertise.preferredNodes"},
		{"Stay", "the node that has it, unless failback: true"},
		{"Hash", "of node and address, the same as MetalLB's"},
	}
	p.draw(`<path d="M478,106 L478,436 M876,106 L876,436" class="line"/>`)
	for i, r := range rungs {
		a := area{478, 112 + i*82, 398, 62}
		class := "box"
		if i == 2 {
			class = "good"
		}
		p.rect(a, class)
		p.number(a.x+22, a.centre(), i+1)
		p.text(a.x+42, a.y+26, "strong", r[0])
		p.text(a.x+42, a.y+46, "soft", r[1])
	}
	p.text(24, 484, "soft", "“Stay” is why a node that comes back does not take its addresses back.")
	p.activeArrow(408, 280, 476, 280)
	p.text(24, 506, "soft", "kubectl fairlead why NAME shows each node and the check that it fails; plan --drain NODE predicts the next owner.")
	return p
}
