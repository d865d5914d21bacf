package ipam

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// SetWords says what each dialect adds to sentences about its pools. It comes before
// everything else; without it, sentences do not say how a user writes a pool.
func (a *Allocator) SetWords(words map[lb.Dialect]lb.Words) { a.words = maps.Clone(words) }

// advice is what the dialects that the Service of r may use say, each thing once:
// "a, b or c".
func (a *Allocator) advice(r *lb.Request, which func(lb.Words) string) string {
	return prose.Or(a.wordsFor(r, which))
}

func (a *Allocator) wordsFor(r *lb.Request, which func(lb.Words) string) (out []string) {
	for _, d := range r.Dialects {
		text := strings.ReplaceAll(which(a.words[d]), "{namespace}", r.Service.Namespace)
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// whatToAdd says what to create for the Service of r to be served.
func (a *Allocator) whatToAdd(r *lb.Request) string {
	return cmp.Or(a.advice(r, func(w lb.Words) string { return w.AddPool }), "a pool")
}

// howToExtend says what to do for pools to have more addresses for the Service of r.
func (a *Allocator) howToExtend(r *lb.Request) string {
	return prose.Sentence(cmp.Or(strings.Join(a.wordsFor(r, func(w lb.Words) string { return w.AddAddress }), ", or "), "add addresses"))
}

// howToMatch says what to do for a pool to give addresses to the Service of r.
func (a *Allocator) howToMatch(r *lb.Request) string {
	ways := a.wordsFor(r, func(w lb.Words) string { return w.AdmitService })
	if by := a.advice(r, func(w lb.Words) string { return w.RequestPool }); by != "" {
		ways = append(ways, "request a pool with "+by)
	}
	return cmp.Or(prose.Sentence(strings.Join(ways, ", or ")), "Change the rules of a pool")
}

// howToShare says with what the Service of r could share an address.
func (a *Allocator) howToShare(r *lb.Request) string {
	return cmp.Or(a.advice(r, func(w lb.Words) string { return w.Share }), "a sharing key")
}
