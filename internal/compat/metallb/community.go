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
	for _, o := range readAll[metallb.CommunitySpec](b, KindCommunity, b.Communities, tell) {
		wrong := o.faults(nil)
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

// communities reads lists of names and values; an alias wins over a value.
type communities struct {
	aliases, former map[string]lb.Community
	// used are the names that were read, with their values.
	used map[string]lb.Community
}

// named is what the names of a list mean that no object has.
type named struct {
	gone    []string // they have the value that they had
	unknown []string // they never had one
}

// told is what there is to tell about them; nil if nothing.
func (n *named) told() *lb.Reason {
	var out lb.Reason
	switch {
	case len(n.unknown) > 0:
		out = Reasons.With(CommunityUnknown, quoted(n.unknown))
	case len(n.gone) > 0:
		out = Reasons.With(CommunityGone, quoted(n.gone))
	default:
		return nil
	}
	return &out
}

func (c *communities) read(words []string, wrong *faults) (out []lb.Community, names named) {
	for i, word := range words {
		value, known := c.aliases[word]
		if !known && strings.Contains(word, ":") {
			value, err := lb.ParseCommunity(word)
			if err != nil {
				wrong.add("communities[%d]: %v", i, err)
				continue
			}
			out = append(out, value)
			continue
		}
		if !known {
			if value, known = c.former[word]; !known {
				names.unknown = append(names.unknown, word)
				continue
			}
			names.gone = append(names.gone, word)
		}
		c.used[word] = value
		out = append(out, value)
	}
	return out, names
}
