package metallb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// faults collects what is wrong with one object.
type faults []string

func (w *faults) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// selector reads a label selector. One that cannot be understood matches nothing:
// it must not open anything.
func (w *faults) selector(at string, in *metav1.LabelSelector) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(in)
	if err != nil {
		w.add("%s: %v", at, err)
		return labels.Nothing()
	}
	return s
}

// selectors reads label selectors. What is there twice is refused as by MetalLB.
func (w *faults) selectors(field string, in []metav1.LabelSelector) []labels.Selector {
	var out []labels.Selector
	var all []string
	for i := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		out = append(out, w.selector(at, &in[i]))
		plain := in[i].DeepCopy()
		var expressions []string
		for _, e := range plain.MatchExpressions {
			for _, twice := range repeated(e.Values) {
				w.add("%s: duplicate definition of match expression value in label selector %q", at, twice)
			}
			slices.Sort(e.Values)
			expressions = append(expressions, written(e))
		}
		for _, twice := range repeated(expressions) {
			w.add("%s: duplicate definition of match expressions %s", at, twice)
		}
		all = append(all, written(plain))
	}
	for _, twice := range repeated(all) {
		w.add("%s: duplicate definition of %s %s", field, field[strings.LastIndex(field, ".")+1:], twice)
	}
	return out
}

// written returns v as JSON, in which two that say the same are the same.
func written(v any) string {
	raw, err := json.Marshal(v)
	if err != nil { // not for what came from JSON
		panic(fmt.Sprintf("write %T: %v", v, err))
	}
	return string(raw)
}

// repeated returns what is in the list more than once, in the order of the list.
func repeated(list []string) []string {
	var out []string
	count := make(map[string]int, len(list))
	for _, s := range list {
		if count[s]++; count[s] == 2 {
			out = append(out, s)
		}
	}
	return out
}
