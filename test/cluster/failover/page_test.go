package failover

import (
	"testing"
	"time"

	"fairlead.io/test/kit/browser"
)

// A cable is cut, and the live page shows the address on another node.
func TestPageShowsACutCable(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	tab := browser.Start(t).Open(browser.UI(t, cluster.Kubeconfig()), 1280, 800)
	for _, a := range w.addrs {
		tab.Until("the page shows where the address is", browser.Live+" && "+browser.On(a.String(), former))
	}
	t.Cleanup(func() { _ = cluster.Heal(former) })
	began := time.Now()
	if err := cluster.Cut(former); err != nil {
		t.Fatal(err)
	}
	address := w.addrs[0].String()
	tab.Until("the page shows the address elsewhere", `document.querySelector('`+browser.Row(address)+`').dataset.node !== '`+former+`' && document.querySelector('`+browser.Row(address)+`').dataset.node !== ''`)
	t.Logf("the page shows the move %s after the cable was cut", time.Since(began).Round(10*time.Millisecond))
	tab.Picture("page-cut-cable")
	next := w.moved(former)
	for _, a := range w.addrs {
		tab.Until("the page shows the address where it is", browser.On(a.String(), next))
	}
	tab.Until("the timeline has the move", `document.querySelector('#timeline .moved')?.innerText.includes('`+former+`→`+next+`')`)
	if err := cluster.Heal(former); err != nil {
		t.Fatal(err)
	}
	if owner := w.settled(); owner != next {
		t.Errorf("%s has the addresses again", owner)
	}
}
