package client

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/bpf"
)

// A question for an IPv6 address is a solicitation as hosts send it: to the group of the
// address, with a hop limit of 255, a right checksum and the asker's hardware address.
func TestSolicitation(t *testing.T) {
	addr := netip.MustParseAddr("fd77::12:3456")
	frame, err := question(addr)
	if err != nil {
		t.Fatal(err)
	}
	if to := [6]byte(frame); to != [6]byte{0x33, 0x33, 0xff, 0x12, 0x34, 0x56} {
		t.Errorf("it goes to %x", to)
	}
	packet := frame[ethernetLen:]
	if packet[0]>>4 != 6 || packet[6] != icmpv6 || packet[7] != hopLimit || int(binary.BigEndian.Uint16(packet[4:])) != len(packet)-ipv6Len {
		t.Errorf("header %x", packet[:8])
	}
	message, err := ndp.ParseMessage(packet[ipv6Len:])
	if err != nil {
		t.Fatal(err)
	}
	if ns, is := message.(*ndp.NeighborSolicitation); !is || ns.TargetAddress != addr || len(ns.Options) != 1 {
		t.Errorf("it asks %+v", message)
	}
	sum := uint32(len(packet)-ipv6Len) + icmpv6
	for part := packet[8:]; len(part) > 1; part = part[2:] {
		sum += uint32(binary.BigEndian.Uint16(part))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum != 0xffff {
		t.Errorf("the checksum is off by %x", ^sum&0xffff)
	}
}

// Of the client host's IPv6, only advertisements are for the asker.
func TestAdvertisementsPass(t *testing.T) {
	vm, err := bpf.NewVM(advertisements)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		next, kind byte
		passes     bool
	}{"advertisement": {icmpv6, 136, true}, "solicitation": {icmpv6, 135, false}, "TCP": {6, 136, false}} {
		frame := make([]byte, 100)
		frame[ethernetLen+6], frame[ethernetLen+ipv6Len] = test.next, test.kind
		if n, err := vm.Run(frame); err != nil || (n > 0) != test.passes {
			t.Errorf("%s: %d bytes pass (%v)", name, n, err)
		}
	}
}
