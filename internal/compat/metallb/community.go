package metallb

import (
	"strings"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// aliases returns the names of communities. Of two with one name the one of the older
// object counts.
func (b *BGP) aliases(tell teller) map[string]lb.Community {
	out := map[string]lb.Community{}
	from := map[string]string{} // which object has it
	for _, o := range readAll[metallb.CommunitySpec](b, KindCommunity, b.Communities, refuse(CommunityInvalid), tell) {
		var wrong faults
		for i, alias := range o.spec.Communities {
			value, err := lb.ParseCommunity(alias.Value)
			switch _, twice := out[alias.Name]; {
			case alias.Name == "":
				wrong.add("communities[%d]: it has no name", i)
			case err != nil:
				wrong.add("communities[%d]: invalid community value: %v", i, err)
			case twice:
				wrong.add("communities[%d]: duplicate definition of community %q, which Community %q has", i, alias.Name, from[alias.Name])
			default:
				out[alias.Name], from[alias.Name] = value, o.Name
			}
		}
		if len(wrong) > 0 {
			tell(KindCommunity, &o.ObjectMeta, Reasons.With(CommunityInvalid, strings.Join(wrong, "; ")))
		}
	}
	return out
}

// communities reads a list of names and values; an alias wins over a value.
func (w *faults) communities(words []string, aliases map[string]lb.Community) []lb.Community {
	var out []lb.Community
	for i, word := range words {
		c, known := aliases[word]
		if !known {
			if !strings.Contains(word, ":") {
				w.add("communities[%d]: no Community object defines %q", i, word)
				continue
			}
			var err error
			if c, err = lb.ParseCommunity(word); err != nil {
				w.add("communities[%d]: %v", i, err)
				continue
			}
		}
		out = append(out, c)
	}
	return out
}
