package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// manifest is the environment that kube-vip's own command writes for a DaemonSet
// that announces Services by ARP.
var manifest = strings.Fields(`vip_arp=true port=6443 vip_nodename=n1 vip_interface=eth0 dns_mode=first dhcp_mode=ipv4
	svc_enable=true svc_leasename=plndr-svcs-lock vip_leaderelection=true vip_leasename=plndr-cp-lock vip_leaseduration=5
	vip_renewdeadline=3 vip_retryperiod=1 vip_subnet=32 prometheus_server=:2112 PATH=/bin`)

func TestKubeVIPDaemonFrom(t *testing.T) {
	for name, test := range map[string]struct {
		environ []string
		want    KubeVIPDaemon // but for what is idle
		err     string
	}{
		"nothing":       {environ: []string{"PATH=/bin"}},
		"its manifest":  {environ: manifest, want: KubeVIPDaemon{Interface: "eth0", NodeName: "n1"}},
		"for Services":  {environ: []string{"vip_interface=eth0", "vip_servicesinterface=eth1.200"}, want: KubeVIPDaemon{Interface: "eth1.200"}},
		"any interface": {environ: []string{"vip_interface=eth0", "vip_servicesinterface=auto"}},
		"empty":         {environ: []string{"vip_interface=eth0", "vip_servicesinterface=", "vip_arpRate=", "lb_class_only=", "svc_enable="}, want: KubeVIPDaemon{Interface: "eth0"}},
		"loopback":      {environ: []string{"vip_interface=lo"}, err: "$vip_interface: announcements on"},
		"no interface":  {environ: []string{"vip_servicesinterface=eth0 eth1"}, err: `$vip_servicesinterface: "eth0 eth1" is not a valid`},
		"too long":      {environ: []string{"vip_servicesinterface=abcdefghijklmnop"}, err: "is not a valid interface name"},

		"rate":          {environ: []string{"vip_arpRate=3000"}, want: KubeVIPDaemon{Refresh: 3 * time.Second}},
		"low rate":      {environ: []string{"vip_arpRate=499"}, err: "at least 500"},
		"no rate":       {environ: []string{"vip_arpRate=3s"}, err: `$vip_arpRate is "3s"`},
		"negative rate": {environ: []string{"vip_arpRate=-1"}, err: "must be a number"},

		"no Services":  {environ: []string{"svc_enable=false"}, err: "agents only serve Services"},
		"Services?":    {environ: []string{"svc_enable=maybe"}, err: `$svc_enable is "maybe", must be true or false`},
		"class only":   {environ: []string{"lb_class_only=true"}, want: KubeVIPDaemon{Classes: []string{"kube-vip.io/kube-vip-class"}}},
		"no class":     {environ: []string{"lb_class_only=false"}, want: KubeVIPDaemon{Classes: []string{"", "kube-vip.io/kube-vip-class"}}},
		"class":        {environ: []string{"lb_class_name=x.io/y"}, want: KubeVIPDaemon{Classes: []string{"", "x.io/y"}}},
		"that only":    {environ: []string{"lb_class_name=x.io/y", "lb_class_only=1"}, want: KubeVIPDaemon{Classes: []string{"x.io/y"}}},
		"empty name":   {environ: []string{"lb_class_name="}, want: KubeVIPDaemon{Classes: []string{""}}},
		"none at all":  {environ: []string{"lb_class_name=", "lb_class_only=true"}, err: "no Service would be served"},
		"modern":       {environ: []string{"lb_class_legacy_handling=false"}, want: KubeVIPDaemon{Classes: []string{"kube-vip.io/kube-vip-class"}}},
		"modern named": {environ: []string{"lb_class_legacy_handling=false", "lb_class_name=x.io/y"}, want: KubeVIPDaemon{Classes: []string{"x.io/y"}}},
		"modern none":  {environ: []string{"lb_class_legacy_handling=false", "lb_class_name="}, want: KubeVIPDaemon{Classes: []string{""}}},
		"legacy":       {environ: []string{"lb_class_legacy_handling=true"}, want: KubeVIPDaemon{Classes: []string{"", "kube-vip.io/kube-vip-class"}}},
		"only?":        {environ: []string{"lb_class_only=yes"}, err: `$lb_class_only is "yes"`},
		"legacy?":      {environ: []string{"lb_class_legacy_handling=old"}, err: `$lb_class_legacy_handling is "old"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := KubeVIPDaemonFrom(test.environ)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Idle = nil
			if d := cmp.Diff(&test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// What changes nothing is told once for each reason, and never with its value.
func TestIdleVariables(t *testing.T) {
	d, err := KubeVIPDaemonFrom(append(manifest, "zebra_enable=true", "zebra_url=secret", "cp_enable=false", "vip_routingtable=0",
		"egress_podcidr=10.0.0.0/8", "vip_loseleadership_timeout_seconds=3", "svc_election=false"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[Effect][]string{}
	for _, i := range d.Idle {
		if len(i.Note) == 0 {
			t.Errorf("%v: no reason", i.Names)
		}
		got[i.Effect] = append(got[i.Effect], strings.Join(i.Names, " "))
	}
	want := map[Effect][]string{
		Unserved: {"zebra_enable zebra_url", "egress_podcidr"},
		NotNeeded: {"vip_arp", "vip_subnet", "svc_election svc_leasename vip_leaderelection vip_leaseduration vip_leasename vip_loseleadership_timeout_seconds vip_renewdeadline vip_retryperiod",
			"prometheus_server", "dhcp_mode"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(d.Idle) > 0 && d.Idle[0].Effect != Unserved {
		t.Error("what is not served is not told first")
	}
}

// What kube-vip does with BGP and Fairlead does not is told.
func TestIdleVariablesOfBGP(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		want    string // those that are not served
	}{
		"with BGP":    {[]string{"bgp_enable=true", "bgp_peeraddress=192.0.2.1", "bgp_attach_ip_to_interface=true", "svc_election=true"}, "bgp_attach_ip_to_interface svc_election"},
		"without BGP": {[]string{"svc_election=true"}, ""},
		"off":         {[]string{"bgp_enable=true", "bgp_peeraddress=192.0.2.1", "bgp_attach_ip_to_interface=false", "svc_election=false"}, ""},
	} {
		d, err := KubeVIPDaemonFrom(c.environ)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range d.Idle {
			if i.Effect == Unserved {
				got = append(got, i.Names...)
			}
		}
		if slices.Sort(got); strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestKubeVIPVariablesAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range KubeVIPVariables {
		if seen[v.Name] || v.Note == "" {
			t.Errorf("%s: named twice, or without a note", v.Name)
		}
		seen[v.Name] = true
	}
}

func TestOnlyKubeVIPClasses(t *testing.T) {
	c, err := Default().OnlyKubeVIPClasses([]string{"", "x.io/y"})
	if err != nil || len(c.Classes) != 2 || c.Class("x.io/y").Backend != Announce || c.Class("").Pools[0] != kubevipPools || !c.Uses(metallbPools) || c.Class(DefaultClass) != nil {
		t.Errorf("%+v, %v", c, err)
	}
	provider, err := FromEnv(func(name string) string { return map[string]string{EnvKubeVIPNamespace: "lb"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.OnlyKubeVIPClasses([]string{""}); err == nil {
		t.Error("who leaves announcing to kube-vip takes the classes of who does not")
	}
}

func FuzzKubeVIPDaemonFrom(f *testing.F) {
	f.Add("eth0", "3000", "x.io/y", "true", "false")
	f.Add("auto", "", "", "1", "0")
	f.Fuzz(func(t *testing.T, link, rate, class, only, legacy string) {
		d, err := KubeVIPDaemonFrom([]string{"vip_interface=" + link, "vip_arpRate=" + rate, "lb_class_name=" + class, "lb_class_only=" + only, "lb_class_legacy_handling=" + legacy})
		if err == nil && (len(d.Interface) > interfaceLength || d.Refresh < 0 || len(d.Classes) == 0 || len(d.Classes) > 2) {
			t.Errorf("%+v", d)
		}
	})
}
