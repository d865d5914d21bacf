package cloudsigma

import (
	"cmp"
	"slices"
)

// stages are changes in the order in which they are written: claims, all others, and
// the end of claims.
func stages(changes []TagChange) [3][]TagChange {
	var out [3][]TagChange
	for _, c := range changes {
		if !c.Claims {
			out[1] = append(out[1], c)
			continue
		}
		begin, end := c, c
		begin.Remove, end.Add = nil, nil
		out[0], out[2] = append(out[0], begin), append(out[2], end)
	}
	return out
}

// after are tags as they are after writes, as far as that is known.
func after(tags []Tag, writes []tagWrite) []Tag {
	out := slices.Clone(tags)
	for _, w := range writes {
		if i := slices.IndexFunc(out, func(t Tag) bool { return t.UUID == w.tag.UUID }); i >= 0 && !w.remove {
			out[i] = w.tag
		}
	}
	return out
}

// tagWrite is a tag as it is to be: one without a UUID is made.
type tagWrite struct {
	tag    Tag
	remove bool // the tag itself
}

// plan is what has to be written so that all changes are made.
func plan(tags []Tag, changes []TagChange) []tagWrite {
	byName := map[string][]Tag{}
	for _, tag := range tags {
		byName[tag.Name] = append(byName[tag.Name], tag)
	}
	var names []string
	add, remove, deleteEmpty := map[string][]string{}, map[string][]string{}, map[string]bool{}
	for _, c := range changes {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
		add[c.Name] = append(add[c.Name], c.Add...)
		remove[c.Name] = append(remove[c.Name], c.Remove...)
		deleteEmpty[c.Name] = deleteEmpty[c.Name] || c.DeleteEmpty
	}
	var out []tagWrite
	for _, name := range names {
		same := byName[name]
		slices.SortFunc(same, func(a, b Tag) int { return cmp.Compare(a.UUID, b.UUID) })
		missing := slices.DeleteFunc(unique(add[name]), func(r string) bool {
			return slices.ContainsFunc(same, func(t Tag) bool { return t.Has(r) })
		})
		if len(same) == 0 && len(missing) > 0 {
			out = append(out, tagWrite{tag: Tag{Name: name, Resources: missing}})
			continue
		}
		for i, tag := range same {
			now := slices.DeleteFunc(slices.Clone(tag.Resources), func(r string) bool {
				return slices.Contains(remove[name], r) && !slices.Contains(add[name], r)
			})
			if i == 0 {
				now = append(now, missing...)
			} else {
				now = slices.DeleteFunc(now, func(r string) bool {
					return slices.Contains(add[name], r) && slices.ContainsFunc(same[:i], func(t Tag) bool { return t.Has(r) })
				})
			}
			if slices.Equal(now, tag.Resources) {
				continue
			}
			gone := len(now) == 0 && (deleteEmpty[name] || i > 0)
			tag.Resources = now
			out = append(out, tagWrite{tag, gone})
		}
	}
	return out
}

func unique(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}
