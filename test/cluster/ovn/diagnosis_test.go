package ovn

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/sandbox"
)

// chassisScript prints what a chassis does with packets of VMs. $1 is a pattern of the
// addresses that count.
const chassisScript = `
cd "$OVS_RUNDIR"
for daemon in db vswitchd controller; do
	kill -0 "$(cat $daemon.pid)" 2>/dev/null || echo "$daemon does not run"
	grep -E '\|(WARN|ERR|EMER)\||assert' $daemon.log | tail -n 3
done
kill -0 "$(cat vswitchd.pid)" 2>/dev/null || exit 0
switch() { ovs-appctl --timeout=5 -t "$OVS_RUNDIR/vswitchd.ctl" "$@"; }
switch tnl/neigh/show | tail -n +3
switch ovs/route/show | grep br-phy
switch tnl/ports/show -v | grep -F 10.78.
switch bfd/show | grep -E '^----|Local Session State|Local Diagnostic'
ovs-vsctl --timeout=5 --bare --columns=name,error find Interface type!=internal link_state!=up
switch dpctl/dump-flows | grep -E "$1" | tail -n 40
switch dpctl/dump-conntrack | grep -E "$1" | tail -n 20
true
`

// showNetwork logs which VMs answer whom, and what every chassis does with their packets.
func showNetwork(t *testing.T, host string, at netip.Addr) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	all, err := cluster.VMs()
	if err != nil {
		t.Log(err)
		return
	}
	count := []string{at.String()}
	for _, vm := range all {
		address := vm.Addresses[0].Addr()
		count = append(count, address.String())
		hears := []string{"itself: " + heard(ctx, vm.Name, netip.MustParseAddr("127.0.0.1"))}
		for _, other := range all {
			if other.Name != vm.Name && other.Switch == vm.Switch {
				hears = append(hears, other.Name+": "+heard(ctx, other.Name, address))
			}
		}
		t.Logf("%s on %s, as heard by %s", vm.Name, vm.Node, strings.Join(hears, "; "))
	}
	pattern := strings.ReplaceAll(strings.Join(slices.Sorted(slices.Values(count)), "|"), ".", `\.`)
	for _, node := range []string{"node1", "node2", "node3"} {
		out, err := cluster.OnChassis(ctx, node, "sh", "-c", chassisScript, "sh", `\b(`+pattern+`)\b`)
		if err != nil {
			out = strings.Replace(err.Error(), chassisScript, "…", 1)
		}
		t.Logf("%s:\n%s", node, out)
	}
	for _, table := range []string{"chassis,logical_port,type list Port_Binding", "logical_port,ip,mac list MAC_Binding"} {
		out, err := cluster.Sbctl(ctx, strings.Fields("--format=table --no-headings --columns="+table)...)
		t.Logf("%s (%v)", out, err)
	}
	out, err := cluster.Exec(ctx, sandbox.ClientHost, "ip", "-4", "neighbour")
	t.Logf("%s asks %s; neighbours of the client host: %s (%v)", host, at, out, err)
}

// heard is what a host gets from a VM at its own address.
func heard(ctx context.Context, host string, address netip.Addr) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := get(ctx, host, address, serverPort)
	if err != nil {
		return fmt.Sprintf("silent (%v)", err)
	}
	return "answers as " + r.vm
}
