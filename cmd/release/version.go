package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// version is a semantic version. Tags of Git are "v" and a version.
type version struct {
	major, minor, patch int
	pre                 int // of a release candidate, from 1; 0 is a real release
}

var versionPattern = regexp.MustCompile(`^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})(?:-rc\.([1-9]\d{0,5}))?$`)

func parseVersion(s string) (version, error) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return version{}, fmt.Errorf("%q is not a version such as 1.2.3 or 1.2.3-rc.1", s)
	}
	var n [4]int
	for i, digits := range m[1:] {
		n[i], _ = strconv.Atoi(digits) // the pattern allows digits only; none is 0
	}
	return version{n[0], n[1], n[2], n[3]}, nil
}

func (v version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if v.pre > 0 {
		s += fmt.Sprintf("-rc.%d", v.pre)
	}
	return s
}

func (v version) tag() string { return "v" + v.String() }

// real is the release that a release candidate is for.
func (v version) real() version { v.pre = 0; return v }

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor), cmp.Compare(v.patch, w.patch),
		cmp.Compare(v.rank(), w.rank()))
}

// rank orders release candidates before their release.
func (v version) rank() int {
	if v.pre == 0 {
		return 1 << 30
	}
	return v.pre
}

// versionsOf are the versions among tags. Other tags do not count.
func versionsOf(tags []string) []version {
	var found []version
	for _, tag := range tags {
		if len(tag) == 0 || tag[0] != 'v' {
			continue
		}
		if v, err := parseVersion(tag[1:]); err == nil {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, version.compare)
	return found
}

// next is the version after the last real release, or the next candidate for it.
func next(released []version, part string, pre bool) (version, error) {
	var last version
	for _, v := range released {
		if v.pre == 0 && v.compare(last) > 0 {
			last = v
		}
	}
	v := last
	switch part {
	case "patch":
		v.patch++
	case "minor":
		v = version{major: v.major, minor: v.minor + 1}
	case "major":
		v = version{major: v.major + 1}
	default:
		return version{}, fmt.Errorf("%q is not a part of a version: use patch, minor or major", part)
	}
	if !pre {
		return v, nil
	}
	v.pre = 1
	for _, other := range released {
		if other.real() == v.real() {
			v.pre = max(v.pre, other.pre+1)
		}
	}
	return v, nil
}
