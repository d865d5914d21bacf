package nft

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// KubeProxyRules says whether the kernel has rules of kube-proxy, in any of its modes:
// it has programmed them since the node was started, and they forward whether it runs
// or not.
func KubeProxyRules() bool {
	if _, err := net.InterfaceByName("kube-ipvs0"); err == nil {
		return true
	}
	return inNftables() || inLegacyTables()
}

// inNftables looks for the table of mode nftables, and for the chain of mode iptables,
// where iptables writes nftables.
func inNftables() bool {
	c, err := nftables.New()
	if err != nil {
		return false
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		tables, err := c.ListTablesOfFamily(family)
		if err != nil {
			continue
		}
		for _, t := range tables {
			if t.Name == "kube-proxy" {
				return true
			}
			if t.Name == "nat" {
				if chain, err := c.ListChain(t, chainOfKubeProxy); err == nil && chain != nil {
					return true
				}
			}
		}
	}
	return false
}

const (
	chainOfKubeProxy = "KUBE-SERVICES"
	// Of linux/netfilter_ipv4/ip_tables.h; ip6_tables.h has the same.
	iptGetInfo, iptGetEntries = 64, 65
	tableNameLen, iptInfoLen  = 32, 84
)

// legacyFamilies are where iptables has its own tables.
var legacyFamilies = []legacyFamily{
	{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.SOL_IP, 4},
	{"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6, 16},
}

type legacyFamily struct {
	names         string
	family, level int
	length        int // of an address
}

// inLegacyTables looks for the chain where iptables writes its own tables: names of chains are
// in the dump.
func inLegacyTables() bool {
	return slices.ContainsFunc(legacyFamilies, func(f legacyFamily) bool {
		return bytes.Contains(f.nat(), []byte(chainOfKubeProxy+"\x00"))
	})
}

// nat returns the entries of the table nat, or nil. It asks only for a table that is there:
// asking for another one makes it.
func (f legacyFamily) nat() []byte {
	names, err := os.ReadFile(f.names)
	if err != nil || !slices.Contains(strings.Fields(string(names)), "nat") {
		return nil
	}
	fd, err := unix.Socket(f.family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	info := make([]byte, iptInfoLen)
	copy(info, "nat")
	if !getsockopt(fd, f.level, iptGetInfo, info) {
		return nil
	}
	size := binary.NativeEndian.Uint32(info[iptInfoLen-4:])
	const header = tableNameLen + 8 // name and size, aligned to the entries
	dump := make([]byte, header+int(size))
	copy(dump, "nat")
	binary.NativeEndian.PutUint32(dump[tableNameLen:], size)
	if !getsockopt(fd, f.level, iptGetEntries, dump) {
		return nil
	}
	return dump[header:]
}

func getsockopt(fd, level, name int, b []byte) bool {
	size := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&size)), 0)
	return errno == 0
}
