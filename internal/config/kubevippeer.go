package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"fairlead.io/internal/lb"
)

// listedPeer reads one entry of kube-vip's list of peers:
//
//	address:AS:password:multihop:port:options:BFD
//	unnumbered:interface:AS:…
//
// All after the AS may be missing or empty. IPv6 addresses are in brackets. Errors quote nothing
// but names of peers: a colon or a comma in a password makes parts of it look like other fields.
func listedPeer(entry string, common lb.Peer) (lb.Peer, error) {
	out := common
	fields, err := fieldsOf(entry)
	if err != nil {
		return out, err
	}
	name := fields[0]
	if name+":" == unnumberedPeer && len(fields) > 1 {
		name, fields = fields[1], fields[1:]
		if out.Interface, err = interfaceName(name); err != nil || out.Interface == "" {
			return out, errors.New("what follows \"unnumbered\" is not the name of an interface")
		}
		out.DualStack = true
	} else if out.Address, err = address(name); err != nil || !out.Address.IsValid() {
		return out, errors.New("it does not begin with the IP address of a peer; write IPv6 addresses as [2001:db8::1]")
	}
	field := func(i int) string {
		if i < len(fields) {
			return strings.TrimSpace(fields[i])
		}
		return ""
	}
	switch as := field(1); {
	case as == "" && out.Interface != "":
		out.ASRule = lb.ExternalAS
	case as == "":
		return out, fmt.Errorf("peer %q has no AS", name)
	default:
		if out.PeerAS, err = asNumber(as); err != nil {
			return out, fmt.Errorf("peer %q: the second field is not an AS number", name)
		}
	}
	out.Password = field(2)
	if text := field(3); text != "" {
		if out.Multihop, err = strconv.ParseBool(text); err != nil {
			return out, fmt.Errorf("peer %q: multihop, the fourth field, must be true or false%s", name, noColons)
		}
	}
	if text := field(4); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return out, fmt.Errorf("peer %q: the port, the fifth field, must be a number from 1 to 65535%s", name, noColons)
		}
		out.Port = uint16(port)
	}
	if text := field(5); text != "" {
		options := map[string]string{}
		for option := range strings.SplitSeq(text, ";") {
			key, value, _ := strings.Cut(option, "=")
			options[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), "[]")
		}
		if err := nextHops(&out, options); err != nil {
			return out, fmt.Errorf("peer %q: the options, the sixth field, must be %s=fixed, auto_sourceip or auto_sourceif, with fixed also %s=ADDRESS or %s=ADDRESS, separated by semicolons%s", name, envMPBGPNextHop, envMPBGPIPv4, envMPBGPIPv6, noColons)
		}
	}
	if out.BFD, err = listedBFD(field(6)); err != nil {
		return out, fmt.Errorf("peer %q: %w%s", name, err, noColons)
	}
	return out, nil
}

// noColons is what to do about fields that are not what they should be.
const noColons = "; a password in this list has no colon and no comma"

// listedBFD reads "enabled;receive;transmit;multiplier", the intervals in milliseconds.
// (kube-vip hands them to its library as microseconds, which nobody can have meant.)
func listedBFD(text string) (*lb.BFD, error) {
	if text == "" {
		return nil, nil
	}
	fields := strings.Split(text, ";")
	if len(fields) != 4 {
		return nil, errors.New("BFD, the last field, must be enabled;receive;transmit;multiplier, such as true;300;300;3")
	}
	on, err := strconv.ParseBool(fields[0])
	if err != nil {
		return nil, errors.New("BFD: its first value must be true or false")
	}
	if !on {
		return nil, nil
	}
	numbers := [3]uint64{300, 300, 3}
	for i, limits := range [...][2]uint64{{10, 60000}, {10, 60000}, {2, 255}} {
		if fields[i+1] == "" {
			continue
		}
		n, err := strconv.ParseUint(fields[i+1], 10, 32)
		if err != nil || n < limits[0] || n > limits[1] {
			return nil, fmt.Errorf("BFD: value %d is not a number from %d to %d", i+2, limits[0], limits[1])
		}
		numbers[i] = n
	}
	return &lb.BFD{Receive: time.Duration(numbers[0]) * time.Millisecond, Transmit: time.Duration(numbers[1]) * time.Millisecond, Multiplier: uint8(numbers[2]), MinTTL: 1}, nil
}

// fieldsOf splits an entry. Colons in brackets are of IPv6 addresses, in the first field and
// in the options, and a password may have brackets.
func fieldsOf(entry string) ([]string, error) {
	var name, rest string
	if strings.HasPrefix(entry, "[") {
		end := strings.Index(entry, "]")
		if end < 0 {
			return nil, errors.New("a bracket is not closed")
		}
		name, rest = entry[1:end], entry[end+1:]
		if rest != "" && rest[0] != ':' {
			return nil, errors.New("after the bracket of the address there must be a colon")
		}
		rest = strings.TrimPrefix(rest, ":")
	} else {
		name, rest, _ = strings.Cut(entry, ":")
	}
	if name+":" == unnumberedPeer {
		iface, after, _ := strings.Cut(rest, ":")
		return append([]string{name, iface}, tailOf(after)...), nil
	}
	return append([]string{name}, tailOf(rest)...), nil
}

// tailOf splits AS:password:multihop:port:options:BFD.
func tailOf(rest string) []string {
	out := strings.SplitN(rest, ":", 5)
	if len(out) < 5 {
		return out
	}
	options := out[4]
	if at := strings.LastIndex(options, ":"); at > strings.LastIndex(options, "]") {
		return append(out[:4], options[:at], options[at+1:])
	}
	return out
}

// address reads an address, or none.
func address(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsUnspecified() || a.IsMulticast() {
		return netip.Addr{}, fmt.Errorf("%q is not the IP address of a host", text)
	}
	return a.Unmap(), nil
}

func asNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not an AS number", text)
	}
	return uint32(n), nil
}
