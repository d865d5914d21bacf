package nft

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// found is what is in the kernel.
type found struct {
	state State
	until map[string]time.Time // fences that live, and until when
	// ours says that there is nothing that we could not have written; part of it,
	// or all, may be missing.
	ours bool
	// complete says that nothing is missing, either.
	complete bool
}

// read returns what is in our tables. It takes elements from what there is, as
// far as it can be understood.
func (c *conn) read() (found, error) {
	f := found{until: map[string]time.Time{}, ours: true, complete: true}
	present, err := c.present()
	if err != nil {
		return found{}, err
	}
	var all []element
	for _, s := range sets {
		there := present.sets[s.path()]
		delete(present.sets, s.path())
		if there == nil {
			f.complete = false
			continue
		}
		n := s.nft()
		if there.KeyType.Bytes != n.KeyType.Bytes || there.HasTimeout != n.HasTimeout {
			f.ours = false
			continue
		}
		now := time.Now()
		elems, err := c.GetSetElements(n)
		if err != nil {
			return found{}, fmt.Errorf("read set %s: %w", s.name, err)
		}
		for _, e := range elems {
			if s.kind == kindAlive {
				f.fence(strings.TrimRight(string(e.Key), "\x00"), now.Add(e.Expires))
			} else {
				all = append(all, element{set: s, key: string(e.Key), end: e.IntervalEnd})
			}
		}
	}
	for _, chain := range chains() {
		path := pathOf(chain.Table, chain.Name)
		f.complete = f.complete && present.rules[path] == len(chain.rules)
		delete(present.rules, path)
	}
	state, ours := assemble(all)
	f.state = state
	f.ours = f.ours && ours && len(present.sets) == 0 && len(present.rules) == 0
	f.complete = f.complete && f.ours
	return f, nil
}

// fence notes a fence, which must be alive in both tables.
func (f *found) fence(ifname string, until time.Time) {
	if old, known := f.until[ifname]; !known || until.Before(old) {
		f.until[ifname] = until
	}
}

// present is what our tables have, by path.
type present struct {
	sets  map[string]*nftables.Set
	rules map[string]int // chain → how many
}

func (c *conn) present() (present, error) {
	p := present{map[string]*nftables.Set{}, map[string]int{}}
	for _, t := range tables {
		sets, err := c.GetSets(t)
		if err != nil && !isNotFound(err) {
			return p, fmt.Errorf("list nftables sets: %w", err)
		}
		for _, s := range sets {
			p.sets[pathOf(t, s.Name)] = s
		}
		chains, err := c.ListChainsOfTableFamily(t.Family)
		if err != nil {
			return p, fmt.Errorf("list nftables chains: %w", err)
		}
		for _, chain := range chains {
			if chain.Table.Name != Name {
				continue
			}
			rules, err := c.GetRules(t, chain)
			if err != nil && !isNotFound(err) {
				return p, fmt.Errorf("list nftables rules: %w", err)
			}
			p.rules[pathOf(t, chain.Name)] = len(rules)
		}
	}
	return p, nil
}

func (s *set) path() string { return pathOf(s.table, s.name) }

func pathOf(t *nftables.Table, name string) string {
	if t.Family == nftables.TableFamilyARP {
		return "arp/" + name
	}
	return "inet/" + name
}

// isNotFound: the library does not wrap all errors.
func isNotFound(err error) bool {
	return errors.Is(err, unix.ENOENT) || strings.Contains(err.Error(), unix.ENOENT.Error())
}
