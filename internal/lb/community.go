package lb

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// MaxCommunities is how many one route may have, as in the system whose kinds we read.
const MaxCommunities = 63

// Community is a mark on a route that routers act on: two numbers of 16 bits (RFC 1997) or,
// if Large, three of 32 bits (RFC 8092).
type Community struct {
	Large   bool
	A, B, C uint32
}

func (c Community) String() string {
	if c.Large {
		return fmt.Sprintf("large:%d:%d:%d", c.A, c.B, c.C)
	}
	return fmt.Sprintf("%d:%d", c.A, c.B)
}

// Compare orders communities.
func (c Community) Compare(d Community) int {
	large := func(c Community) int {
		if c.Large {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(large(c), large(d)), cmp.Compare(c.A, d.A), cmp.Compare(c.B, d.B), cmp.Compare(c.C, d.C))
}

// ParseCommunity reads "a:b" or "large:a:b:c".
func ParseCommunity(s string) (Community, error) {
	text, large := strings.CutPrefix(s, "large:")
	fields, bits, form := strings.Split(text, ":"), 16, "64500:7"
	numbers := 2
	if large {
		numbers, bits, form = 3, 32, "large:64500:1:2"
	}
	if len(fields) != numbers {
		return Community{}, fmt.Errorf("%q is not a community; write it as 64500:7 or large:64500:1:2", s)
	}
	var n [3]uint32
	for i, field := range fields {
		v, err := strconv.ParseUint(field, 10, bits)
		if err != nil {
			return Community{}, fmt.Errorf("%q is not a community: %q is not a number of %d bits; write it as %s", s, field, bits, form)
		}
		n[i] = uint32(v)
	}
	return Community{Large: large, A: n[0], B: n[1], C: n[2]}, nil
}
