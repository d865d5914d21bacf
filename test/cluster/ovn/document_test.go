package ovn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

// The Service of examples/kube-dc, with every command of kube-dc's document about load
// balancers as it is printed.
func TestDocument(t *testing.T) {
	sh(t, "kubectl apply -f examples/kube-dc/web.yaml")
	s := &corev1.Service{}
	s.Namespace, s.Name = namespace, "web"
	t.Cleanup(func() {
		if _, err := site.Shell(context.WithoutCancel(t.Context()), cluster, "kubectl delete --ignore-not-found -f examples/kube-dc/web.yaml"); err != nil {
			t.Error(err)
		}
	})
	vip := addresses(t, s, 1)[0]
	t.Run("first connection", func(t *testing.T) { firstConnection(t, vip) })
	t.Run("both VMs", func(t *testing.T) { answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...) })

	pod := strings.TrimSpace(sh(t, "kubectl get pods -n kube-system -l app=ovn-central -o jsonpath='{.items[0].metadata.name}'"))
	eip := strings.Fields(sh(t, "kubectl get eip -n "+namespace+" | grep slb-"))[0]
	printed := strings.NewReplacer("{namespace}", namespace, "{vpc-name}", namespace, "{service-name}", "web", "{svc-name}", "web",
		"{eip-name}", eip, "{external-ip}", vip.String(), "{port}", "80", "ovn-central-xxx", pod)
	row := `(?m)^[0-9a-f-]{36} +shalb-dev-web-tc +tcp +` + regexp.QuoteMeta(vip.String()) + `:80 +10\.1\.0\.40:31416,10\.1\.0\.41:31416`
	for _, step := range []struct {
		name, host, command string
		want                string // a regular expression
	}{
		{"verify 1", "", "kubectl get svc -n {namespace} {service-name}", `web +LoadBalancer +\S+ +` + regexp.QuoteMeta(vip.String())},
		{"verify 2", "", "kubectl get eip -n {namespace} | grep slb-", `^slb-web-\w{5} +` + regexp.QuoteMeta(vip.String()) + ` +true`},
		{"verify 3", "", "EIP_NAME=$(kubectl get eip -n {namespace} {eip-name} -o jsonpath='{.status.ovnEIpRef}')\nkubectl get ovn-eip $EIP_NAME -o yaml",
			`(?s)kind: OvnEip.*externalSubnet: ext-public.*status:.*ready: true.*type: lrp`},
		{"verify 4", "", "kubectl exec -n kube-system ovn-central-xxx -- ovn-nbctl lb-list | grep {namespace}", row},
		{"verify 5", "", "kubectl exec -n kube-system ovn-central-xxx -- ovn-nbctl lr-lb-list {namespace}", row},
		{"verify 6", sandbox.ClientHost, "arp -n | grep {external-ip}", regexp.QuoteMeta(vip.String()) + ` +ether +` + routerMAC},
		{"verify 7", sandbox.ClientHost, "curl -sS http://{external-ip}:{port}", `^vm[12] on node[23] answers 168\.119\.17\.49:\d+\n$`},
		{"show", "", "kubectl exec -n kube-system ovn-central-xxx -- ovn-nbctl show {vpc-name}",
			`(?s)^router \S+ \(shalb-dev\)\n.*    port shalb-dev-ext-public\n        mac: "ae:d6:b9:e1:76:78"\n        networks: \["168\.119\.17\.51/28"\]\n        gateway chassis: \[node\d node\d node\d\]`},
		{"troubleshoot 1", "", "kubectl get svc -n {namespace} {service-name}", regexp.QuoteMeta(vip.String())},
		{"troubleshoot 2", "", "kubectl exec -n kube-system ovn-central-xxx -- ovn-nbctl lb-list | grep {svc-name}", row},
		{"troubleshoot 3", "", "kubectl get endpoints -n {namespace} {service-name}", `web +10\.1\.0\.40:31416,10\.1\.0\.41:31416`},
		{"troubleshoot 4", "", "kubectl exec -n kube-system ovn-central-xxx -- ovn-nbctl lr-lb-list {vpc-name}", row},
		// There are no pods in the project here. A VM stands for the one of the document.
		{"troubleshoot 5", "vm1", "curl -sS http://{external-ip}:{port}", `^vm[12] on node[23] answers`},
		{"troubleshoot 6", sandbox.ClientHost, "arp -n | grep {external-ip}", routerMAC},
	} {
		t.Run(step.name, func(t *testing.T) {
			command := printed.Replace(step.command)
			var out string
			eventually(t, command, func() (err error) { // a Service may be published before its EIp says so
				if step.host == "" {
					out, err = site.Shell(t.Context(), cluster, command)
				} else {
					var raw []byte
					raw, err = cluster.Exec(t.Context(), step.host, "sh", "-c", command)
					out = string(raw)
				}
				if err == nil && !regexp.MustCompile(step.want).MatchString(out) {
					err = fmt.Errorf("%s\nwant %s", out, step.want)
				}
				return err
			})
			if strings.Contains(out, "vpc_nat") || regexp.MustCompile(`(?m)^  nat: \S`).MatchString(out) {
				t.Errorf("%s\n%s\nhas something of NAT", command, out)
			}
		})
	}
	t.Run("companion", func(t *testing.T) {
		eventually(t, "web-ext leads to the address", func() error {
			out, err := site.Shell(t.Context(), cluster, "kubectl get endpointslices -n "+namespace+" -l kubernetes.io/service-name=web-ext -o jsonpath='{.items[*].endpoints[*].addresses}'; kubectl get service -n "+namespace+" web-ext")
			if err == nil && !strings.Contains(out, vip.String()) {
				err = errors.New(out)
			}
			return err
		})
	})
	t.Run("misconceptions", func(t *testing.T) { noRules(t) })
}

// firstConnection is with a client that does not know yet who has the address. How long
// it takes is told, not asserted.
func firstConnection(t *testing.T, vip netip.Addr) {
	forget(t)
	var r reply
	begin, tries := time.Now(), 0
	eventually(t, "somebody answers", func() (err error) {
		tries++
		r, err = get(t.Context(), sandbox.ClientHost, vip, 80)
		return err
	})
	t.Logf("%s has answered after %v, at attempt %d", r.vm, time.Since(begin).Round(time.Millisecond), tries)
}

// noRules: the router has no other NAT rows and policies than without Fairlead.
func noRules(t *testing.T) {
	t.Helper()
	now, err := routerRules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now != rulesBefore {
		t.Errorf("the router's NAT rows and policies were\n%s\nand are\n%s", rulesBefore, now)
	}
}

// A Service that is deleted takes everything along: its row, its EIp and OvnEip, and the
// router's answers.
func TestDeletion(t *testing.T) {
	s := newService("short", 80)
	vip := publish(t, s)
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	remove(t, s)
	eventually(t, "nobody answers for the address", func() error {
		forget(t)
		return nobodyHas(t.Context(), vip)
	})
	eventually(t, "the row is gone", func() error {
		row, err := cluster.Nbctl(t.Context(), "--bare", "--columns=_uuid", "find", "Load_Balancer", "name="+namespace+"-short-tcp")
		if err == nil && strings.TrimSpace(row) != "" {
			err = errors.New(row)
		}
		return err
	})
}

// gone: no EIp and no OvnEip has a name with this in it.
func gone(ctx context.Context, part string) error {
	out, err := site.Shell(ctx, cluster, "kubectl get eip,ovn-eip --all-namespaces -o name")
	if err != nil {
		return err
	}
	if strings.Contains(out, part) {
		return errors.New(out)
	}
	return nil
}
