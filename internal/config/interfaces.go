package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// never matches nothing at all.
var never = regexp.MustCompile(`[^\x00-\x{10FFFF}]`)

// LoadExcluded reads the file at path in which MetalLB's speakers are told on
// which interfaces nothing is announced, and returns what matches their names.
func LoadExcluded(path string) (*regexp.Regexp, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	excluded, err := ParseExcluded(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return excluded, nil
}

// ParseExcluded reads a list of regular expressions, of which any may match
// anywhere in a name.
func ParseExcluded(data []byte) (*regexp.Regexp, error) {
	var file struct {
		Exclude *[]string `json:"announcedInterfacesToExclude"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if file.Exclude == nil {
		return nil, fmt.Errorf("list announcedInterfacesToExclude is missing")
	}
	var parts []string
	for i, text := range *file.Exclude {
		if _, err := regexp.Compile(text); err != nil {
			return nil, fmt.Errorf("announcedInterfacesToExclude[%d]: %q is not a regular expression: %w", i, text, err)
		}
		parts = append(parts, "("+text+")")
	}
	if len(parts) == 0 {
		return never, nil
	}
	return regexp.Compile(strings.Join(parts, "|"))
}
