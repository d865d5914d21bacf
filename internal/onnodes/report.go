// Package onnodes checks nodes before agents run there: by a DaemonSet that exists for a
// minute, whose pods look at the kernel and at each other, and report in their status. It
// removes the DaemonSet whatever happens. The part that runs on nodes is package probe.
package onnodes

import (
	"encoding/json"
	"fmt"
	"strings"

	"fairlead.io/internal/snapshot"
)

// Report is what a pod found on its node. It is the message with which its container
// ends, which may have 4096 bytes.
type Report struct {
	Results []Result `json:"results"`
}

// Result of one check.
type Result struct {
	Name string        `json:"name"`
	Mark snapshot.Mark `json:"mark"`
	Fact string        `json:"fact"`
	Fix  string        `json:"fix,omitempty"`
}

const (
	maxMessage = 4096
	maxFact    = 600
)

// Encode returns the message.
func (r *Report) Encode() ([]byte, error) {
	for i := range r.Results {
		if fact := &r.Results[i].Fact; len(*fact) > maxFact {
			*fact = strings.ToValidUTF8((*fact)[:maxFact], "") + "…"
		}
	}
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxMessage {
		err = fmt.Errorf("the report has %d bytes, at most %d are kept", len(data), maxMessage)
	}
	return data, err
}

// Decode reads the message of a container. What is in it was written on a node: it is
// text, and no command.
func Decode(message string) (*Report, error) {
	var r Report
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return nil, fmt.Errorf("the container ended with %.200q", message)
	}
	for _, x := range r.Results {
		switch x.Mark {
		case snapshot.Passed, snapshot.Failed, snapshot.Skipped, snapshot.Unclear:
		default:
			return nil, fmt.Errorf("the container ended with the mark %.50q", x.Mark)
		}
	}
	return &r, nil
}
