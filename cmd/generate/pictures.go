package main

import (
	"fmt"
	"os"

	drawn "fairlead.io/docs/pictures"
)

// pictures are those of the documentation. One has figures of docs/benchmarks.md.
func pictures() (files, error) {
	text, err := os.ReadFile("docs/benchmarks.md")
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	all, err := drawn.All(string(text))
	if err != nil {
		return nil, err
	}
	made := files{}
	for name, svg := range all {
		made["docs/images/"+name] = svg
	}
	return made, nil
}
