package ipam

import (
	"testing"

	"fairlead.io/internal/lb"
)

// Advice is that of the dialects that the Service may use, each thing once.
func TestWords(t *testing.T) {
	words := map[lb.Dialect]lb.Words{
		"a": {AddPool: "an A", AdmitService: "change a pool", RequestPool: "annotation a/pool", Share: "annotation a/share"},
		"b": {AddPool: "a B", AdmitService: "change a pool", RequestPool: "annotation b/pool"},
		"c": {AddPool: "a key {namespace}", AddAddress: "buy addresses", AdmitService: "add a key {namespace}", Share: "key share-{namespace}"},
	}
	for _, tt := range []struct {
		dialects                  []lb.Dialect
		add, extend, match, share string
	}{
		{[]lb.Dialect{"a"}, "an A", "Add addresses", "Change a pool, or request a pool with annotation a/pool", "annotation a/share"},
		{[]lb.Dialect{"a", "b"}, "an A or a B", "Add addresses", "Change a pool, or request a pool with annotation a/pool or annotation b/pool", "annotation a/share"},
		{[]lb.Dialect{"c"}, "a key shop", "Buy addresses", "Add a key shop", "key share-shop"},
		{[]lb.Dialect{"c", "a"}, "a key shop or an A", "Buy addresses", "Add a key shop, or change a pool, or request a pool with annotation a/pool", "key share-shop or annotation a/share"},
		{[]lb.Dialect{"unheard"}, "a pool", "Add addresses", "Change the rules of a pool", "a sharing key"},
		{nil, "a pool", "Add addresses", "Change the rules of a pool", "a sharing key"},
	} {
		a := New()
		a.SetWords(words)
		r := &lb.Request{Service: serviceName("web"), Dialects: tt.dialects}
		if got := a.whatToAdd(r); got != tt.add {
			t.Errorf("%v: add %q, want %q", tt.dialects, got, tt.add)
		}
		if got := a.howToExtend(r); got != tt.extend {
			t.Errorf("%v: extend %q, want %q", tt.dialects, got, tt.extend)
		}
		if got := a.howToMatch(r); got != tt.match {
			t.Errorf("%v: match %q, want %q", tt.dialects, got, tt.match)
		}
		if got := a.howToShare(r); got != tt.share {
			t.Errorf("%v: share %q, want %q", tt.dialects, got, tt.share)
		}
	}
}
