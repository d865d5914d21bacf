package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/lb"
)

func TestParse(t *testing.T) {
	const head = "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\n"
	all := []lb.Dialect{lb.Native, metallbPools, kubevipPools}
	tests := []struct {
		name, file string
		want       []Class
		wantErr    []string
	}{
		{name: "empty: the defaults", file: head,
			want: []Class{{Name: "", Backend: Announce, Pools: all}, {Name: DefaultClass, Backend: Announce, Pools: all}}},
		{name: "one class, completed", file: head + "clusterName: prod\nclasses: [{name: example.com/lan}]\nnodes: {cloud: none}\n",
			want: []Class{{Name: "example.com/lan", Backend: Announce, Pools: all}}},
		{name: "a whole class", file: head + "classes: [{name: \"\", backend: announce, pools: [native]}]\n",
			want: []Class{{Name: "", Backend: Announce, Pools: []lb.Dialect{lb.Native}}}},
		{name: "pools of MetalLB's kinds first", file: head + "classes: [{name: metallb, pools: [metallb, native]}]\n",
			want: []Class{{Name: "metallb", Backend: Announce, Pools: []lb.Dialect{metallbPools, lb.Native}}}},
		{name: "not a configuration", file: "kind: ConfigMap\n", wantErr: []string{`must be "fairlead.io/v1alpha1" and "Configuration"`}},
		{name: "everything wrong is told", file: head + "classes: [{name: a, backend: cloud}, {name: a, pools: [mine]}]\nnodes: {cloud: moon}\n",
			wantErr: []string{`backend "cloud" is unknown`, `class "a" is listed twice`, `pools "mine" are unknown`, `nodes.cloud "moon" is unknown; available: "none", "cloudscale"`}},
		{name: "cloudscale", file: head + "classes: [{name: \"\", backend: cloudscale}, {name: lan}]\nnodes: {cloud: cloudscale}\n",
			want: []Class{{Name: "", Backend: Cloudscale}, {Name: "lan", Backend: Announce, Pools: []lb.Dialect{lb.Native, metallbPools, kubevipPools}}}},
		{name: "pools of a cloud", file: head + "classes: [{name: \"\", backend: cloudscale, pools: [native]}]\n", wantErr: []string{`with "cloudscale" the cloud assigns the addresses`}},
		{name: "CloudSigma", file: head + "clusterName: prod\nclasses: [{name: \"\", backend: cloudsigma}]\nnodes: {cloud: cloudsigma}\ncloudsigma: {interface: ens3, pods: true}\n",
			want: []Class{{Name: "", Backend: CloudSigma}}},
		{name: "no interface", file: head + "cloudsigma: {interface: a name that is too long}\n", wantErr: []string{"cloudsigma.interface"}},
		{name: "a misspelt field", file: head + "clases: []\n", wantErr: []string{`unknown field "clases"`}},
		{name: "not YAML", file: "\t{", wantErr: []string{"yaml"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse([]byte(test.file))
			if len(test.wantErr) > 0 {
				for _, want := range test.wantErr {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v does not contain %q", err, want)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.Classes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodesCloud(t *testing.T) {
	const head = "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\n"
	for file, want := range map[string]Cloud{"": NoCloud, "nodes: {}": NoCloud, "nodes: {cloud: none}": NoCloud, "nodes: {cloud: cloudscale}": CloudscaleNodes} {
		if c, err := Parse([]byte(head + file)); err != nil || c.Nodes.Cloud != want {
			t.Errorf("%q: %v, %v, want %s", file, c, err, want)
		}
	}
}

// A cloud that the environment configures is enough to be that cloud's controller
// manager.
func TestFromEnv(t *testing.T) {
	none := func(string) string { return "" }
	for _, test := range []struct {
		clouds []Cloud
		want   *Configuration
	}{
		{nil, Default()},
		{[]Cloud{CloudscaleNodes}, &Configuration{APIVersion: apiVersion, Kind: kind, Classes: []Class{{Name: "", Backend: Cloudscale}}, Nodes: Nodes{Cloud: CloudscaleNodes}}},
		{[]Cloud{CloudSigmaNodes}, &Configuration{APIVersion: apiVersion, Kind: kind, Classes: []Class{{Name: "", Backend: CloudSigma}}, Nodes: Nodes{Cloud: CloudSigmaNodes},
			CloudSigma: CloudSigmaOptions{Pods: true}}},
	} {
		got, err := FromEnv(none, test.clouds...)
		if err != nil {
			t.Errorf("%s: %v", test.clouds, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.clouds, diff)
		}
	}
	if _, err := FromEnv(none, CloudscaleNodes, "moon"); err == nil || !strings.Contains(err.Error(), `several clouds, "cloudscale", "moon"`) {
		t.Errorf("two clouds: %v", err)
	}
}

func TestBackends(t *testing.T) {
	c := &Configuration{Classes: []Class{{Name: "b", Backend: Cloudscale}, {Name: "a", Backend: Announce}, {Name: "c", Backend: Cloudscale}}}
	if diff := cmp.Diff([]Backend{Announce, Cloudscale}, c.Backends()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Backend{Announce}, Default().Backends()); diff != "" {
		t.Error(diff)
	}
}

func TestUnlistedClassIsNotServed(t *testing.T) {
	if c := Default().Class("example.com/other"); c != nil {
		t.Errorf("class is served by %v", c)
	}
}

func TestOnlyClass(t *testing.T) {
	before := Default()
	before.ClusterName = "prod"
	for _, name := range []string{"metallb", ""} {
		c, err := before.OnlyClass(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.ClusterName != "prod" || len(c.Classes) != 1 || len(before.Classes) != 2 {
			t.Errorf("%q: got %+v, and %+v is left", name, c, before)
		}
		class := c.Class(name)
		if class == nil || class.Backend != Announce || !slices.Equal(class.Pools, []lb.Dialect{metallbPools, lb.Native}) {
			t.Errorf("%q: got %+v", name, class)
		}
		if c.Class(DefaultClass) != nil {
			t.Errorf("%q: the classes of before are served, too", name)
		}
	}
}

func TestUses(t *testing.T) {
	c := &Configuration{Classes: []Class{{Pools: []lb.Dialect{lb.Native}}}}
	only, err := c.OnlyClass("x")
	if err != nil || !c.Uses(lb.Native) || c.Uses(metallbPools) || !only.Uses(metallbPools) {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: fairlead.io/v1alpha1\nkind: Configuration\nclasses: [{name: a, backend: announce, pools: [native]}]\n"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, class := range c.Classes {
			if seen[class.Name] || class.Backend == "" || len(class.Pools) == 0 {
				t.Errorf("accepted an incomplete or repeated class: %+v", class)
			}
			seen[class.Name] = true
		}
	})
}
