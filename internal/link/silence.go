package link

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"fairlead.io/internal/lb"
)

// sysctls is where settings of interfaces are, those of the network namespace of the
// calling thread.
const sysctls = "/proc/sys/net"

// settings are what the sysctls of an interface come to.
type settings struct {
	silent [2]string
	strict bool
}

func settingsOf(iface string) settings { return settings{silences(iface), strict(iface)} }

// strict says whether an interface takes packets only from where its routes lead. Of rp_filter
// the higher value counts, the interface's or that of all: 1 is strict, 2 is not.
func strict(iface string) bool {
	return max(setting("ipv4", iface, "rp_filter"), setting("ipv4", "all", "rp_filter")) == 1
}

// silences returns by family which setting of an interface keeps the kernel from
// answering for our addresses.
//
// Of arp_ignore the higher value counts, the interface's or that of all. 1 asks for an
// address of that interface, which ours are. 2 asks for a network that sender and target
// share: addresses outside the interface's networks are not answered for, and those are
// not common enough to leave the interface out. 3 leaves out addresses of scope host,
// and 8 all of them.
func silences(iface string) (out [2]string) {
	ignore, from := setting("ipv4", iface, "arp_ignore"), iface
	if all := setting("ipv4", "all", "arp_ignore"); all > ignore {
		ignore, from = all, "all"
	}
	if ignore == 3 || ignore == 8 {
		out[lb.IPv4] = fmt.Sprintf("net.ipv4.conf.%s.arp_ignore is %d", from, ignore)
	}
	if setting("ipv6", iface, "disable_ipv6") == 1 {
		out[lb.IPv6] = fmt.Sprintf("net.ipv6.conf.%s.disable_ipv6 is 1", iface)
	}
	return out
}

// setting returns 0 for one that cannot be read: kernels without IPv6 have none of it.
func setting(family, iface, name string) int {
	b, err := os.ReadFile(path.Join(sysctls, family, "conf", iface, name))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// Recheck reads the settings of interfaces again, whose changes the kernel does not
// tell. Changed is sent to if any matters.
func (l *Links) Recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.devices {
		if !d.link.Up || d.link.Loopback || d.link.Slave {
			continue
		}
		if now := settingsOf(d.link.Name); now != d.settings {
			d.settings = now
			l.signal()
		}
	}
}
