package pictures

// migration draws who serves and who announces while MetalLB is replaced.
func migration() *picture {
	p := &picture{name: "migration", width: 860, height: 400, title: "Replacing MetalLB: its speakers announce until Fairlead's agents do, so addresses are answered throughout"}
	p.text(24, 34, "head", "Replacing MetalLB, step by step")
	p.text(24, 56, "soft", "Steps of the guide for a Helm release. Every address is answered throughout. The guide has the way back, too.")
	const left, column, top, lane = 190, 108, 104, 52
	steps := []string{"Save state", "Keep CRDs", "Stop", "Install", "Check", "Remove"}
	for i, s := range steps {
		x := left + i*column
		p.number(x+12, 80, i)
		p.text(x+28, 84, "soft", s)
		p.draw(`<line x1="%d" y1="94" x2="%d" y2="%d" class="grid"/>`, x, x, top+5*lane)
	}
	bar := func(row, from, to int, class, line string) {
		p.box(area{left + from*column + 4, top + row*lane + 8, (to-from)*column - 8, lane - 16}, class, line)
	}
	for i, name := range []string{"MetalLB controller", "MetalLB speakers", "Fairlead controller", "Fairlead agents", "Clients"} {
		p.text(24, top+i*lane+lane/2+5, "strong", name)
	}
	bar(0, 0, 2, "warn", "assigns addresses")
	bar(1, 0, 5, "warn", "announce addresses")
	bar(2, 3, 6, "good", "assigns; keeps every address")
	bar(3, 3, 6, "good", "take addresses over, node by node")
	bar(4, 0, 6, "lane", "connect to the same addresses throughout")
	p.text(left+2*column+8, top+lane/2+5, "soft", "new Services wait")
	p.text(24, 386, "soft", "kubectl fairlead migrate --from metallb prints these steps with the names of your cluster, and compares afterwards (--verify).")
	return p
}
