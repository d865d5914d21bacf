package failover

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/wire"
)

// An address that a stranger on the LAN uses is not used until it is free: one
// that was taken before the Service came, and one that is taken from the Service,
// which at that moment is not with the node that comes first.
func TestAddressConflict(t *testing.T) {
	w := newWorld(t)
	cordonAndBack(t, w)
	first := w.addrs
	rival := stranger(t, 98)
	var second []netip.Addr
	for _, addr := range first {
		next := addr.Next()
		second = append(second, next)
		rival.Run("ip", "address", "add", netip.PrefixFrom(next, next.BitLen()).String(), "dev", rival.nic, "nodad")
	}
	taken := newService(t, "taken")
	if got := addressesOf(t, taken); fmt.Sprint(got) != fmt.Sprint(second) {
		t.Fatalf("the second Service has %v, not %v", got, second)
	}
	eventually(t, func() error { return conflictTold(t, taken, second, rival.mac) })

	for _, addr := range first {
		rival.Run("ip", "address", "add", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", rival.nic, "nodad")
	}
	var port *wire.Port
	var err error
	rival.Do(func() { port, err = wire.Open(rival.nic) })
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	w.addrs = append(w.addrs, second...)
	eventually(t, func() error { // until it has its way
		for _, addr := range first {
			if err := port.Announce(addr); err != nil {
				return err
			}
		}
		return w.onlyAt(rival.mac)
	})
	eventually(t, func() error { return conflictTold(t, w.service, first, rival.mac) })
	during(t, time.Second, func() error { return w.onlyAt(rival.mac) })
	if where, err := interfaces(); err != nil || len(where) > 0 {
		t.Errorf("addresses that a stranger uses are on %v (%v)", where, err)
	}

	for _, addr := range w.addrs {
		rival.Run("ip", "address", "del", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", rival.nic)
	}
	freed := time.Now()
	eventually(t, func() error {
		_, err := w.owners(w.addrs...)
		return err
	})
	t.Logf("all four are in use %v after they were freed", time.Since(freed).Round(100*time.Millisecond))
}

// cordonAndBack has the addresses move to another node and stay there.
func cordonAndBack(t *testing.T, w *world) {
	t.Helper()
	former := w.settled()
	cordon(t, former, true)
	next := w.moved(former)
	cordon(t, former, false)
	if owner := w.settled(); owner != next {
		t.Fatalf("after %s was uncordoned %s has the addresses, not %s", former, owner, next)
	}
}

// conflictTold says whether events on a Service tell whose each address is.
func conflictTold(t *testing.T, s *corev1.Service, addrs []netip.Addr, mac string) error {
	var list corev1.EventList
	if err := api.List(t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		return err
	}
	for _, addr := range addrs {
		told := false
		for _, e := range list.Items {
			told = told || e.InvolvedObject.UID == s.UID && e.Reason == "AddressConflict" && e.Type == corev1.EventTypeWarning &&
				strings.Contains(e.Message, addr.String()+" ") && strings.Contains(e.Message, mac)
		}
		if !told {
			return fmt.Errorf("no event on %s tells that %s is at %s", s.Name, addr, mac)
		}
	}
	return nil
}
