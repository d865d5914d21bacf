package metallb

import (
	"strings"
	"time"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// profiles returns those that can be used, by name. One that is refused is nil.
func (b *BGP) profiles(tell teller) map[string]*lb.BFD {
	out := map[string]*lb.BFD{}
	for i := range b.Profiles { // known, although not usable
		if p := &b.Profiles[i]; p.GetNamespace() == b.Namespace {
			out[p.GetName()] = nil
		}
	}
	for _, p := range readAll[metallb.BFDProfileSpec](b, KindProfile, b.Profiles, tell) {
		bfd, wrong := profileOf(&p.spec)
		if wrong = p.faults(wrong); len(wrong) > 0 {
			tell(KindProfile, &p.ObjectMeta, Reasons.With(BFDProfileInvalid, strings.Join(wrong, "; ")))
			continue
		}
		out[p.Name] = bfd
		echo := p.spec.EchoMode != nil && *p.spec.EchoMode
		switch fast := bfd.DetectsTooFast(); {
		case echo && fast:
			tell(KindProfile, &p.ObjectMeta, tooFast(bfd).And(Reasons.With(EchoNotServed)))
		case echo:
			tell(KindProfile, &p.ObjectMeta, Reasons.With(EchoNotServed))
		case fast:
			tell(KindProfile, &p.ObjectMeta, tooFast(bfd))
		}
	}
	return out
}

func tooFast(b *lb.BFD) lb.Reason { return Reasons.With(BFDTooFast, min(b.Transmit, b.Receive)) }

func profileOf(spec *metallb.BFDProfileSpec) (*lb.BFD, faults) {
	var wrong faults
	number := func(field string, v *uint32, least, most, other uint32) uint32 {
		switch {
		case v == nil:
			return other
		case *v < least || *v > most:
			wrong.add("%s: %d is not between %d and %d", field, *v, least, most)
			return other
		}
		return *v
	}
	milliseconds := func(field string, v *uint32, other uint32) time.Duration {
		return time.Duration(number(field, v, 10, 60000, other)) * time.Millisecond
	}
	out := &lb.BFD{
		Receive:    milliseconds("receiveInterval", spec.ReceiveInterval, 300),
		Transmit:   milliseconds("transmitInterval", spec.TransmitInterval, 300),
		Multiplier: uint8(number("detectMultiplier", spec.DetectMultiplier, 2, 255, 3)),
		// FRR's own default of 254 is only for profiles of one hop: MetalLB's sessions over
		// several hops have 1.
		MinTTL:  uint8(number("minimumTtl", spec.MinimumTTL, 1, 254, 1)),
		Passive: spec.PassiveMode != nil && *spec.PassiveMode,
	}
	milliseconds("echoInterval", spec.EchoInterval, 50)
	return out, wrong
}
