// Package prose joins and shortens words for sentences that people read. It knows
// English, and nothing of Fairlead.
package prose

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxItems is how many items of a long list are worth reading.
const maxItems = 4

// And joins items: "a, b and c".
func And(items []string) string { return join(items, ", ", " and ") }

// Or joins items: "a, b or c".
func Or(items []string) string { return join(items, ", ", " or ") }

// Few is And for lists that may be long: "a, b, c, d, and 3 more".
func Few(items []string) string {
	if n := len(items); n > maxItems {
		return strings.Join(items[:maxItems], ", ") + more(", ", n)
	}
	return And(items)
}

// Clauses joins parts of a sentence that may have commas of their own:
// "a; b; c; d; and 3 more".
func Clauses(items []string) string {
	if n := len(items); n > maxItems {
		return strings.Join(items[:maxItems], "; ") + more("; ", n)
	}
	return strings.Join(items, "; ")
}

func more(separator string, n int) string {
	return separator + "and " + strconv.Itoa(n-maxItems) + " more"
}

// Addrs is And for addresses, families and whatever else writes itself.
func Addrs[T fmt.Stringer](items []T) string {
	if len(items) == 1 {
		return items[0].String()
	}
	return And(Texts(items))
}

// Commas joins items as they are written in a list: "a, b, c".
func Commas[T fmt.Stringer](items []T) string { return strings.Join(Texts(items), ", ") }

// Texts are items as they write themselves.
func Texts[T fmt.Stringer](items []T) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = item.String()
	}
	return out
}

func join(items []string, separator, last string) string {
	n := len(items)
	if n < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:n-1], separator) + last + items[n-1]
}

// Cut shortens text to at most size bytes and an ellipsis. It cuts no character in
// two.
func Cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	end := size
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// maxQuoted is how many bytes of what somebody wrote are repeated to him.
const maxQuoted = 80

// Quote quotes what somebody wrote, or the beginning of it.
func Quote(text string) string {
	return strconv.Quote(strings.ToValidUTF8(Cut(text, maxQuoted), ""))
}

// Sentence returns text with its first letter in upper case.
func Sentence(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return text
	}
	return string(unicode.ToUpper(r)) + text[size:]
}
