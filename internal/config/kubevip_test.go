package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/lb"
)

// The environment of kube-vip's cloud provider makes Fairlead that, beside a cloud
// only if each has a class of its own.
func TestFromKubeVIP(t *testing.T) {
	pools := []lb.Dialect{kubevipPools}
	for name, test := range map[string]struct {
		env    map[string]string
		clouds []Cloud
		want   []Class
		err    bool
	}{
		"nothing set":        {want: Default().Classes},
		"a class name alone": {env: map[string]string{EnvKubeVIPClassName: "x.io/y"}, want: Default().Classes},
		"class mode in a cloud": {env: map[string]string{EnvKubeVIPClassMode: "true"}, clouds: []Cloud{CloudscaleNodes},
			want: []Class{{Backend: Cloudscale}, {Name: "kube-vip.io/kube-vip-class", Backend: KubeVIP, Pools: pools}}},
		"two for one class":       {env: map[string]string{EnvKubeVIPNamespace: "lb"}, clouds: []Cloud{CloudscaleNodes}, err: true},
		"the ConfigMap elsewhere": {env: map[string]string{EnvKubeVIPNamespace: "lb"}, want: []Class{{Backend: KubeVIP, Pools: pools}}},
		"class mode off":          {env: map[string]string{EnvKubeVIPClassMode: "false", EnvKubeVIPClassName: "x.io/y"}, want: []Class{{Backend: KubeVIP, Pools: pools}}},
		"class mode":              {env: map[string]string{EnvKubeVIPClassMode: "true"}, want: []Class{{Name: "kube-vip.io/kube-vip-class", Backend: KubeVIP, Pools: pools}}},
		"class mode with a name":  {env: map[string]string{EnvKubeVIPClassMode: "1", EnvKubeVIPClassName: "x.io/y"}, want: []Class{{Name: "x.io/y", Backend: KubeVIP, Pools: pools}}},
		"neither true nor false":  {env: map[string]string{EnvKubeVIPClassMode: "yes"}, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := FromEnv(func(key string) string { return test.env[key] }, test.clouds...)
			if (err != nil) != test.err {
				t.Fatal(err)
			}
			var got []Class
			if c != nil {
				got = c.Classes
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestKubeVIPMapFrom(t *testing.T) {
	if got := KubeVIPMapFrom(func(string) string { return "" }); got != (KubeVIPMap{"kube-system", "kubevip"}) {
		t.Error(got)
	}
	env := map[string]string{EnvKubeVIPNamespace: "lb", EnvKubeVIPConfigMap: "pools"}
	if got := KubeVIPMapFrom(func(key string) string { return env[key] }); got != (KubeVIPMap{"lb", "pools"}) {
		t.Error(got)
	}
}
