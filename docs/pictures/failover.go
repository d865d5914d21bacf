package pictures

import (
	"fmt"
	"regexp"
	"strconv"
)

// outage is how long a client had no new connection after the cable of the node that
// announced the address was cut.
type outage struct {
	system  string
	note    string
	seconds float64
	ours    bool
}

var (
	oursInPage   = regexp.MustCompile(`\| failover: cable cut: no new connection, of (\d+) times the median \| ([0-9.]+) \| ms`)
	othersInPage = regexp.MustCompile(`([0-9.]+)\s+s\s+with\s+MetalLB\s+\(median\s+of\s+(\d+)\),\s+([0-9.]+)\s+s\s+with\s+kube-vip,\s+and\s+([0-9.]+)\s+s\s+with\s+kube-vip\s+and\s+leases\s+of\s+5/3/1\s+s`)
)

// outagesOf reads them from docs/benchmarks.md, so that picture and page have the same.
func outagesOf(benchmarks string) ([]outage, error) {
	ours, others := oursInPage.FindStringSubmatch(benchmarks), othersInPage.FindStringSubmatch(benchmarks)
	if ours == nil || others == nil {
		return nil, fmt.Errorf("docs/benchmarks.md has no row %q, or not the outages of others: %q", oursInPage, othersInPage)
	}
	figures := make([]float64, 4)
	for i, text := range []string{ours[2], others[1], others[4], others[3]} {
		var err error
		if figures[i], err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("read docs/benchmarks.md: %w", err)
		}
	}
	return []outage{
		{"Fairlead", "median of " + ours[1] + ", by make bench", figures[0] / 1000, true},
		{"MetalLB", "median of " + others[2], figures[1], false},
		{"kube-vip", "leases of 5/3/1 s", figures[2], false},
		{"kube-vip", "default leases", figures[3], false},
	}, nil
}

// failover draws outages as bars on one axis of seconds.
func failover(benchmarks string) (*picture, error) {
	outages, err := outagesOf(benchmarks)
	if err != nil {
		return nil, err
	}
	const left, top, row, scale = 220, 92, 44, 26.0 // pixels to a second
	p := &picture{name: "failover", width: 800, height: top + row*len(outages) + 62}
	p.title = "After a cut cable, new connections work again after"
	p.text(24, 34, "head", "The cable of the announcing node is cut. When do new connections work again?")
	p.text(24, 56, "soft", "A client outside the cluster opens a connection every 20 ms. Seconds without an answer:")
	bottom := top + row*len(outages)
	for s := 0; s <= 20; s += 5 {
		x := left + int(float64(s)*scale)
		p.draw(`<line x1="%d" y1="%d" x2="%d" y2="%d" class="grid"/>`, x, top-12, x, bottom)
		p.text(x, bottom+16, "middle soft", fmt.Sprintf("%d s", s))
	}
	for i, o := range outages {
		y := top + i*row
		p.text(24, y+12, "strong", o.system)
		p.text(24, y+28, "soft", o.note)
		class, figure := "other", "strong"
		if o.ours {
			class, figure = "bar", "big"
		}
		width := max(int(o.seconds*scale), 3)
		p.draw(`<rect x="%d" y="%d" width="%d" height="22" rx="3" class="%s"/>`, left, y, width, class)
		p.text(left+width+10, y+17, figure, fmt.Sprintf("%.1f s", o.seconds))
		p.title += fmt.Sprintf(" %.1f s with %s (%s),", o.seconds, o.system, o.note)
	}
	p.title = p.title[:len(p.title)-1]
	p.text(24, bottom+44, "soft", "The others were measured earlier on a machine of this size, not by make bench: docs/benchmarks.md")
	return p, nil
}
