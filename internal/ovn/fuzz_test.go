package ovn

import (
	"fmt"
	"testing"

	"fairlead.io/internal/ovsdb"
)

func schemaFor(t *testing.T) ovsdb.Schema {
	t.Helper()
	s := ovsdb.Schema{Version: "7.0.0", Tables: map[string]map[string]bool{}}
	for table, columns := range needed {
		s.Tables[table] = map[string]bool{}
		for _, c := range columns {
			s.Tables[table][c] = true
		}
	}
	if _, err := monitored(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A database without what later versions have can be used; one without what is needed
// cannot, and the error names it.
func TestColumns(t *testing.T) {
	s := schemaFor(t)
	got, err := monitored(s)
	if err != nil || len(got[tableGroup].Columns) != 0 || len(got[tableLoadBalancer].Columns) != len(needed[tableLoadBalancer]) {
		t.Error(got, err)
	}
	delete(s.Tables[tableLoadBalancer], "options")
	if _, err := monitored(s); err == nil {
		t.Error("a database without options is accepted")
	}
}

// updateOf makes an update of four bytes.
func updateOf(data []byte) ovsdb.Updates {
	pick := func(b byte, of ...string) string { return of[int(b)%len(of)] }
	tables := []string{tableLoadBalancer, tableLoadBalancer, tableRouter, tableSwitch, tableGroup, tablePort, tableGlobal, tableSwitchPort, tablePortGroup, tableACL}
	table := tables[int(data[0])%len(tables)]
	u := ovsdb.RowUpdate{Change: ovsdb.Change(int(data[0]) / len(tables) % 3), Columns: map[string]ovsdb.Value{}}
	one := func(s string) ovsdb.Value { return ovsdb.Value{Set: []string{s}} }
	pair := func(k, v string) ovsdb.Value { return ovsdb.Value{Map: map[string]string{k: v}} }
	id := fmt.Sprintf("%s-%d", table, data[1]%4)
	switch data[2] % 10 {
	case 0:
		u.Columns["name"] = one(pick(data[3], "shalb-dev-etcd-lb-tcp", "shalb-dev", "shalb-dev-default", "", "x", "shalb-dev-ext-public"))
	case 1:
		u.Columns["vips"] = pair(pick(data[3], "168.119.17.52:2379", "168.119.17.52", "[2001:DB8::1]:80", "nonsense", "", "203.0.113.1:1"), pick(data[1], "", "10.0.0.11:2379", ",,"))
	case 2:
		u.Columns["external_ids"] = ovsdb.Value{Map: map[string]string{KeyVendor: pick(data[3], Vendor, "kube-ovn"), KeyCluster: pick(data[3]/2, "c1", "c2"), KeyService: pick(data[3]/4, "shalb-dev/etcd-lb", "", "a/b")}}
	case 3:
		u.Columns["load_balancer"] = one(fmt.Sprintf("%s-%d", tableLoadBalancer, data[3]%4))
	case 4:
		u.Columns["ports"] = one(fmt.Sprintf("%s-%d", tablePort, data[3]%4))
		u.Columns["networks"] = one(pick(data[3], "10.0.0.1/16", "nonsense", ""))
		u.Columns["gateway_chassis"] = one("ch1")
	case 5:
		u.Columns["protocol"] = ovsdb.Value{}
		u.Columns["options"] = pair("reject", "true")
	case 6:
		u.Columns["load_balancer_group"] = one(fmt.Sprintf("%s-%d", tableGroup, data[3]%4))
	case 7:
		u.Columns["options"] = pair("router-port", pick(data[3], "shalb-dev-ext-public", "x", ""))
	case 8:
		u.Columns["acls"] = one(fmt.Sprintf("%s-%d", tableACL, data[3]%4))
		u.Columns["match"] = one(pick(data[3], "", "ip4"))
	case 9:
		u.Columns["nb_cfg"], u.Columns["sb_cfg"] = one(pick(data[3], "1", "-1", "x")), one("9999999999999999999999")
	}
	return ovsdb.Updates{table: {id: u}}
}
