package link_test

import (
	"fmt"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/test/kit/netns"
)

// Whatever arp_ignore is, an interface is silent for us exactly if the kernel does not
// answer for an address of ours on it.
func TestSilentIsWhatTheKernelIs(t *testing.T) {
	client, node := lab(t)
	var links *link.Links
	node.Do(func() { links = watch(t, node) })
	if err := links.Add("eth0", vip[lb.IPv4]); err != nil {
		t.Fatal(err)
	}
	set := func(conf, name string, value int) {
		node.Run("sysctl", "-qw", fmt.Sprintf("net.ipv4.conf.%s.%s=%d", conf, name, value))
		node.Do(links.Recheck)
	}
	silent := func() string {
		l, _ := named(links, "eth0")
		return l.Silent[lb.IPv4]
	}
	answers := func() bool {
		client.Run("ip", "neigh", "flush", "all")
		_, err := client.Try("ping", "-c1", "-W1", vip[lb.IPv4].String())
		return err == nil
	}
	for _, conf := range []string{"eth0", "all"} {
		for _, value := range []int{0, 1, 2, 3, 4, 8} {
			set(conf, "arp_ignore", value)
			if got, want := silent() == "", answers(); got != want {
				t.Errorf("net.ipv4.conf.%s.arp_ignore=%d: the kernel answers: %t; but silent is %q", conf, value, want, silent())
			}
		}
		set(conf, "arp_ignore", 0)
	}
	set("eth0", "arp_filter", 1)
	if !answers() || silent() != "" {
		t.Errorf("arp_filter: silent %q", silent())
	}
	set("eth0", "arp_ignore", 1)
	set("all", "arp_ignore", 3)
	if want := "net.ipv4.conf.all.arp_ignore is 3"; silent() != want {
		t.Errorf("silent %q, want %q", silent(), want)
	}
}

// IPv6 that is switched off is said in words, too; and a change is told.
func TestSilentIPv6(t *testing.T) {
	_, node := lab(t)
	var links *link.Links
	node.Do(func() { links = watch(t, node) })
	node.Run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
	until(t, links, "the addresses are gone", func() bool {
		l, _ := named(links, "eth0")
		return !l.Global[lb.IPv6]
	})
	node.Do(links.Recheck)
	netns.Eventually(t, 0, "a change is told", func() bool { return len(links.Changed()) == 1 })
	if l, _ := named(links, "eth0"); l.Silent[lb.IPv6] != "net.ipv6.conf.eth0.disable_ipv6 is 1" {
		t.Errorf("silent %q", l.Silent)
	}
}

// An interface is strict if the kernel drops packets from addresses that it would answer through
// another one.
func TestStrict(t *testing.T) {
	_, node := lab(t)
	var links *link.Links
	node.Do(func() { links = watch(t, node) })
	for _, c := range []struct {
		all, own string
		want     bool
	}{{"0", "0", false}, {"1", "0", true}, {"0", "1", true}, {"1", "2", false}, {"2", "1", false}} {
		node.Run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter="+c.all, "net.ipv4.conf.eth0.rp_filter="+c.own)
		node.Do(links.Recheck)
		if l, _ := named(links, "eth0"); l.Strict != c.want {
			t.Errorf("rp_filter of all %s, of eth0 %s: strict %t", c.all, c.own, l.Strict)
		}
	}
}
