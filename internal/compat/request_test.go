package compat_test

import (
	"testing"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// formats are the readings of all, without any object.
func formats() compat.Readings {
	var out compat.Readings
	for _, d := range []compat.Dialect{native.Dialect{}, metallb.Dialect{}, kubevip.Dialect{}} {
		out = append(out, compat.Named{Dialect: d, Reading: d.Read(compat.Objects{})})
	}
	return out
}

func TestReadingOf(t *testing.T) {
	if _, ok := formats().Of(kubevip.Name).(*kubevip.Reading); !ok {
		t.Error("that of kube-vip is not found")
	}
	if r := formats().Of("none"); r != nil {
		t.Errorf("found %v", r)
	}
}

// In kube-vip's words spec.loadBalancerIP may be what the Service was given. So other formats
// do not see it where those count, and kube-vip's does.
func TestStrippedForOthers(t *testing.T) {
	s := kubeapi.Service(parse(t, `{spec: {loadBalancerIP: 0.0.0.0}}`))
	for name, test := range map[string]struct {
		in   compat.Class
		dhcp bool
	}{
		"kube-vip's pools":    {compat.Class{Dialects: []lb.Dialect{kubevip.Name}}, true},
		"kube-vip's words":    {compat.Class{Words: kubevip.Name, Dialects: []lb.Dialect{kubevip.Name}}, true},
		"only pools of ours":  {compat.Class{Dialects: []lb.Dialect{lb.Native}}, false},
		"other pools of ours": {compat.Class{Dialects: []lb.Dialect{lb.Native, metallb.Name}}, false},
	} {
		r := formats().Request(s, nil, test.in)
		if r.DHCP[lb.IPv4] != test.dhcp || (r.Invalid == nil) != test.dhcp {
			t.Errorf("%s: by DHCP %t, %v", name, r.DHCP[lb.IPv4], r.Invalid)
		}
	}
}

// Services of traffic policy Local share an address if they have the same pods. One without
// a selector shares with none.
func TestBackends(t *testing.T) {
	for name, want := range map[string]string{
		`{}`:                           "",
		`{selector: {b: "2", a: "1"}}`: "",
		`{externalTrafficPolicy: Local, selector: {b: "2", a: "1"}}`: "a=1,b=2",
		`{externalTrafficPolicy: Local}`:                             "endpoints of shop/web",
	} {
		s := kubeapi.Service(parse(t, `{metadata: {namespace: shop, name: web}, spec: `+name+`}`))
		if got := formats().Request(s, nil, compat.Class{}).Backends; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPlainVoice(t *testing.T) {
	v := compat.PlainVoice{}
	if e := v.Event(lb.NoPool.With("a pool"), nil, nil); e.Reason != "NoPool" || e.Message == "" || v.Alone() {
		t.Errorf("%+v, alone %t", e, v.Alone())
	}
}
