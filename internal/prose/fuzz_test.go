package prose

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzQuote: what somebody wrote is repeated in a few bytes, all of which can be read.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "edge", strings.Repeat("ü", 50), strings.Repeat("x", 79) + "€", "\xff\xfe", "a\x00b\n"} {
		f.Add(s, 80)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		q := Quote(text)
		inner, err := strconv.Unquote(q)
		if err != nil || len(inner) > maxQuoted+len("…") || !utf8.ValidString(inner) {
			t.Errorf("%q is quoted as %s (%v)", text, q, err)
		}
		if utf8.ValidString(text) && !strings.HasPrefix(text, strings.TrimSuffix(inner, "…")) {
			t.Errorf("%q is quoted as %s", text, q)
		}
		if size < 0 || size > 1<<16 {
			return
		}
		cut := Cut(text, size)
		if len(cut) > size+len("…") || utf8.ValidString(text) && !utf8.ValidString(cut) || len(text) <= size && cut != text {
			t.Errorf("%q is cut to %q at %d", text, cut, size)
		}
	})
}
