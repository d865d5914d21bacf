package tool

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/sandbox/cloudsigma"
	standin "fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/rig"
)

// sessions run the commands of all pages. A page of which each of several sessions runs a part
// is in the last one as a whole.
var sessions = []session{{
	name: "kube-vip", nodes: []string{"node1", "node2"}, world: func(*ground) {},
	pages: []string{"docs/guides/sandbox.md", "docs/guides/pending.md", "docs/guides/migrate-from-kube-vip.md"},
	parts: map[string][]string{
		"docs/guides/sandbox.md": {"sed", "kubectl create configmap", "kubectl create service", "kubectl describe service"},
		"docs/guides/pending.md": {"kubectl logs -n kube-system", "kubectl get lease -n kube-system", "kubectl auth can-i patch services --as system:serviceaccount:kube-system"},
	},
	words: []string{"service NAME", "service web", "ADDRESS", "192.0.2.5"},
	ready: kubeVIPFiles,
}, {
	name: "metallb", nodes: []string{"node1", "node2"}, world: func(*ground) {},
	pages: []string{"docs/neighbours/talos.md", "docs/guides/migrate-from-metallb.md"},
	parts: map[string][]string{"docs/neighbours/talos.md": {"kubectl create namespace"}},
	words: []string{"service NAME", "service web", "metallb/metallb", "$T/install/testdata/metallb"},
	ready: withMetalLB,
}, {
	name: "kube-dc", nodes: []string{"node1", "node2"}, world: kubeDCWorld,
	pages: []string{"docs/guides/sandbox.md", "docs/guides/kube-dc.md", "docs/guides/migrate-from-kube-dc.md"},
	parts: map[string][]string{"docs/guides/sandbox.md": {"kubectl get vpc", "kubectl get services,eip"}},
	words: []string{
		"{namespace}", "shalb-dev", "{service-name}", "web", "{vpc-name}", "shalb-dev", "{eip-name}", "$(kubectl get eip -n shalb-dev -o name | grep slb-web | cut -d/ -f2)",
		"eip NAME", "eip default-gw", "service NAME", "service web --namespace shalb-dev", "PROJECT", "shalb-dev",
	},
	ready: withProject,
}, {
	name: "cloudscale", nodes: []string{"node1", "node2"}, world: cloudscaleWorld,
	pages: []string{"docs/guides/cloudscale.md", "docs/guides/migrate-from-cloudscale-ccm.md"},
	words: []string{"'...'", cloud.Token, "CLOUDSCALE_ACCESS_TOKEN=...", "CLOUDSCALE_ACCESS_TOKEN=" + cloud.Token, "NODE", "node2", "service NAME", "service hello"},
	ready: "kubectl label node node1 node-role.kubernetes.io/control-plane=",
}, {
	name: "cloudsigma", nodes: []string{"node1", "node2"}, world: cloudsigmaWorld,
	pages: []string{"docs/guides/cloudsigma.md", "docs/guides/migrate-from-cloudsigma-ccm.md"},
	words: []string{
		"username='...'", "username=user@example.com", "password='...'", "password=sandbox", "CLOUDSIGMA_USERNAME=...", "CLOUDSIGMA_USERNAME=user@example.com",
		"CLOUDSIGMA_PASSWORD=...", "CLOUDSIGMA_PASSWORD=sandbox", "'https://...'", "$CLOUDSIGMA_API_ENDPOINT", "client-id='...'", "client-id=fairlead", "client-secret='...'", "client-secret=sandbox",
		"me@example.com", "user@example.com:sandbox", "'https://zrh.cloudsigma.com/api/2.0/tags/?limit=0'", "$CLOUDSIGMA_API_ENDPOINT/api/2.0/tags/?limit=0", "service NAME", "service nginx-lb", "service/NAME", "service/nginx-lb", "ens3", "lo",
	},
	ready: "kubectl label node node1 node-role.kubernetes.io/control-plane=\nkubectl create namespace tenants",
}, {
	name: "native", nodes: []string{"worker-1", "worker-2", "worker-3"},
	first: []string{"helm install", "kubectl apply"},
	pages: []string{
		"README.md", "docs/guides/kubectl-fairlead.md", "docs/guides/pending.md", "docs/guides/announce.md", "docs/guides/bgp.md", "docs/runbooks.md", "docs/guides/pools.md",
		"docs/guides/page.md", "docs/guides/monitoring.md", "docs/neighbours/talos.md", "docs/neighbours/external-dns.md", "docs/tutorial.md",
		"docs/guides/install.md",
	},
	words: []string{"NAMESPACE/SERVICE", "default/web", "service NAME", "service web", "NODE", "worker-1", "POOL", "edge", "PEER", "tor"},
	ready: "kubectl create deployment web --image=nginx --replicas=3",
}}

// kubeDCWorld has OVN's database, and what stands in for kube-ovn.
func kubeDCWorld(g *ground) {
	address := rig.FreeAddress(g)
	host, port, _ := strings.Cut(address, ":")
	nb := northbound.Start(g, "ptcp:"+port+":"+host)
	nb.Ctl("init")
	nb.Northd()
	nb.Ctl("lr-add", "shalb-dev", "--", "ls-add", "shalb-dev-default", "--", "lrp-add", "shalb-dev", "inside", "02:00:00:00:00:01", "10.1.0.1/16",
		"--", "lrp-add", "shalb-dev", "shalb-dev-ext-public", "ae:d6:b9:e1:76:78", "168.119.17.51/28", "--", "lrp-set-gateway-chassis", "shalb-dev-ext-public", "ch1")
	where := "ovn:\n  northbound: [tcp:" + address + "]\n  # For servers" // instead of the default
	g.names = []string{"tcp:192.0.2.11:6641", "tcp:" + address, "ovn:\n  # For servers", where}
	for _, crd := range append(standin.CRDs(), standin.RuleCRDs()...) {
		g.create(crd)
		served := &unstructured.UnstructuredList{}
		served.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind})
		rig.Eventually(g, crd.Name+" is served", func() error { return g.rig.Client.List(g.Context(), served) })
	}
	ovn, err := standin.New(g.rig.API.RESTConfig())
	if err != nil {
		g.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ovn.Run(ctx) }()
	g.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			g.Errorf("kube-ovn: %v", err)
		}
	})
}

func cloudscaleWorld(g *ground) {
	c := cloud.New(g)
	for i, node := range []string{"node1", "node2"} {
		c.AddServer(node, []string{"10.1.0.11", "10.1.0.12"}[i])
	}
	g.variables = []string{"CLOUDSCALE_API_URL=" + c.URL, "KUBE_EDITOR=sed -i s/name:.http/name:web/"}
}

// cloudsigmaWorld has an account with addresses from 192.0.2.10 on.
func cloudsigmaWorld(g *ground) {
	c := cloudsigma.New(cloudsigma.Options{})
	g.Cleanup(c.Close)
	server := httptest.NewServer(c)
	g.Cleanup(server.Close)
	for last := byte(10); last < 14; last++ {
		c.Subscribe(netip.AddrFrom4([4]byte{192, 0, 2, last}))
	}
	for _, node := range []string{"node1", "node2"} {
		if _, err := c.AddServer(cloudsigma.NewServer{Name: node, NICs: []cloudsigma.NewNIC{{Mode: "dhcp", Addr4: "*"}}}); err != nil {
			g.Fatal(err)
		}
	}
	g.variables = []string{"CLOUDSIGMA_API_ENDPOINT=" + server.URL}
}
