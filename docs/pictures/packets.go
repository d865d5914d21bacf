package pictures

// packets draws the way of a packet from a client to a pod.
func packets() *picture {
	p := &picture{name: "packet-path", width: 860, height: 452, title: "The path of a packet: a client asks the LAN for the address, the kernel of one node answers, and kube-proxy forwards the packet to a pod"}
	p.text(24, 34, "head", "The path of a packet to 192.0.2.7")
	client := area{24, 62, 150, 56}
	lan := area{24, 158, 812, 34}
	p.box(client, "box", "Client or router", "on the LAN")
	p.box(lan, "lane", "LAN")
	nodes := []area{{24, 226, 256, 140}, {302, 226, 256, 140}, {580, 226, 256, 140}}
	for i, a := range nodes {
		class := "box"
		if i == 1 {
			class = "good"
		}
		p.rect(a, class)
		p.text(a.x+14, a.y+24, "strong", []string{"node1", "node2", "node3"}[i])
	}
	silent := nodes[0]
	p.lines(silent.x+14, silent.y+48, "soft", "The kernel does not answer:", "node1 does not own the address.")
	owner := nodes[1]
	p.lines(owner.x+14, owner.y+48, "soft", "The agent renews the fence.", "Only the Service's ports are open.", "kube-proxy selects a pod.")
	pod := area{606, 314, 160, 40}
	far := nodes[2]
	p.lines(far.x+14, far.y+48, "soft", "The pod may run on any node.")
	p.box(pod, "box", "Pod of the Service")
	// 1: the question
	p.arrow(70, client.bottom(), 70, lan.y-2)
	p.number(70, 138, 1)
	p.text(220, 82, "", "“Who has 192.0.2.7?” goes to all hosts (ARP, or NDP for IPv6).")
	p.number(203, 77, 1)
	// 2: the answer
	p.activeArrow(390, owner.y, 390, lan.bottom()+2)
	p.number(390, 209, 2)
	p.text(220, 106, "", "The kernel of one node answers, while its fence stands.")
	p.number(203, 101, 2)
	// 3: the packets
	p.activeArrow(470, lan.bottom(), 470, owner.y-2)
	p.number(470, 209, 3)
	p.text(220, 130, "", "Packets go to that node.")
	p.number(203, 125, 3)
	// 4: to the pod
	p.activeArrow(owner.right()-120, pod.centre(), pod.x-2, pod.centre())
	p.number(owner.right()-130, pod.centre(), 4)
	p.text(24, 396, "", "The agents elect the node together, by gossip, without the API server.")
	p.text(24, 420, "soft", "If node2 dies, another node announces the address. If only its agent hangs, the fence expires within a second.")
	return p
}
