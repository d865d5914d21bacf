package pictures

// backends draws which backend and which configuration is for whom.
func backends() *picture {
	rows := []struct{ have, use, page, makes string }{
		{"A LAN of your own", "announce, with Pools", "guides/install.md", "one node answers ARP and NDP"},
		{"MetalLB, layer 2", "announce, with MetalLB's objects", "guides/migrate-from-metallb.md", "the same, as MetalLB's objects say"},
		{"kube-vip, to be replaced", "announce, with ConfigMap kubevip", "guides/migrate-from-kube-vip.md", "the same; also addresses by DHCP"},
		{"kube-vip, to be kept", "kube-vip", "guides/migrate-from-kube-vip.md", "Fairlead assigns, kube-vip announces"},
		{"Servers at cloudscale.ch", "cloudscale", "guides/cloudscale.md", "a load balancer of the cloud"},
		{"Servers at CloudSigma", "cloudsigma", "guides/cloudsigma.md", "an address of the account, on a node"},
		{"kube-dc on OVN", "ovn", "guides/kube-dc.md", "a load balancer on the project's router"},
	}
	const top, height, gap = 100, 44, 10
	p := &picture{name: "backends", width: 900, height: top + len(rows)*(height+gap) + 40, title: "Which backend: what you have, the backend and configuration to use, and what makes an address reachable"}
	p.text(24, 34, "head", "Which backend is for me?")
	p.text(24, 56, "soft", "A backend serves a class of Services. One Fairlead can serve several classes.")
	p.text(24, 88, "strong", "You have")
	p.text(272, 88, "strong", "Backend and configuration")
	p.text(608, 88, "strong", "An address is")
	for i, r := range rows {
		y := top + i*(height+gap)
		have, use := area{24, y, 208, height}, area{272, y, 300, height}
		p.box(have, "box", r.have)
		p.rect(use, "good")
		p.text(use.middle(), use.y+19, "middle strong", r.use)
		p.text(use.middle(), use.y+36, "middle soft", r.page)
		p.arrow(have.right(), have.centre(), use.x-2, have.centre())
		p.arrow(use.right(), have.centre(), 600, have.centre())
		p.text(608, have.centre()+5, "soft", r.makes)
	}
	p.text(24, p.height-16, "soft", "kubectl fairlead check says what it finds in your cluster, before you install.")
	return p
}
