package site

import (
	"encoding/json"
	"fmt"
	"strings"
)

// found is a part of a page as the search knows it.
type found struct {
	URL   string `json:"u"`
	Page  string `json:"p"`
	Title string `json:"t"`
	Text  string `json:"x"`
}

// index is what the search looks into, as a script: a page from a file may load a script,
// but not read another file.
func (b *builder) index() ([]byte, error) {
	var all []found
	for _, p := range b.sorted() {
		for i := range p.headings {
			h := &p.headings[i]
			all = append(all, found{p.url() + "#" + h.id, p.title, h.name, strings.Join(strings.Fields(h.text.String()), " ")})
		}
	}
	content, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("make the index of the search: %w", err)
	}
	return fmt.Appendf(nil, "window.docs = %s;\n", content), nil
}
