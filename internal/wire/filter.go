package wire

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

// filter returns the program by which the kernel drops what does not concern
// us, so that a flood of IPv6 costs us nothing. What is addressed to another
// host is dropped, too: an interface may be promiscuous. The sockets are bound
// to one protocol each, to which the kernel gives no copies of what we send.
func filter(f lb.Family) ([]bpf.RawInstruction, error) {
	type load = bpf.LoadAbsolute
	var tests []bpf.Instruction // each load is followed by the value wanted
	switch f {
	case lb.IPv4:
		tests = []bpf.Instruction{
			load{Off: ethernetLen, Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: arpBegins >> 16},
			load{Off: ethernetLen + 4, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: arpBegins & 0xffff},
		}
	case lb.IPv6:
		tests = []bpf.Instruction{
			load{Off: ethernetLen + 6, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: icmpv6},
			load{Off: ethernetLen + 7, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ndHopLimit},
			load{Off: ethernetLen + ipv6Len, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: solicitation},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: advertisement},
		}
	}
	program := append([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OTHERHOST},
	}, tests...)
	program = append(program, bpf.RetConstant{Val: maxFrame}, bpf.RetConstant{Val: 0})
	for i, instruction := range program {
		if jump, ok := instruction.(bpf.JumpIf); ok {
			jump.SkipTrue = uint8(len(program) - 2 - i) // to the last instruction
			program[i] = jump
		}
	}
	return bpf.Assemble(program)
}
