package metallb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// amend adds to r what the annotations of MetalLB ask for. Our own annotations may
// ask for the same thing, but not for different ones: nobody could tell which is
// meant.
func amend(r *lb.Request, s *lb.Service) {
	asks := Read(s, r.Families)
	if asks.Annotated {
		r.Voice = Name
	}
	if asks.From != "" && !slices.Contains(r.From, asks.From) {
		r.From = append(r.From, asks.From)
	}
	var wrong []string
	settle := func(ours *string, annotation string, theirs Asked) {
		switch {
		case theirs.Value == "":
		case *ours == "":
			*ours = theirs.Value
		case *ours != theirs.Value:
			wrong = append(wrong, contradiction(annotation, *ours, theirs))
		}
	}
	switch ours, theirs := r.Pool != "", asks.Pool.Value != ""; {
	case ours && !theirs:
		r.Dialects = compat.First(lb.Native, r.Dialects)
	case theirs && !ours:
		r.Dialects = compat.First(Name, r.Dialects)
	}
	settle(&r.Pool, native.AnnotationPool, asks.Pool)
	settle(&r.ShareKey, native.AnnotationShare, asks.ShareKey)
	switch list := s.Annotations[native.AnnotationAddresses]; {
	case len(asks.Addresses) == 0:
	case list == "":
		r.Addresses = asks.Addresses
	case asks.Invalid == nil && r.Invalid == nil && !sameSet(r.Addresses, asks.Addresses):
		wrong = append(wrong, contradiction(native.AnnotationAddresses, list, asks.List))
	}
	if len(wrong) > 0 {
		compat.Invalid(r, lb.InvalidRequest.With(strings.Join(wrong, "; ")))
	}
	if asks.Invalid != nil {
		compat.Invalid(r, *asks.Invalid)
	}
}

func contradiction(annotation, ours string, theirs Asked) string {
	return fmt.Sprintf("Annotation %s requests %q, and annotation %s requests %q; remove one of them", annotation, ours, theirs.Annotation, theirs.Value)
}

func sameSet(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}
