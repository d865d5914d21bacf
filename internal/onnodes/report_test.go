package onnodes

import (
	"strings"
	"testing"

	"fairlead.io/internal/snapshot"
)

func TestReportFitsIntoAMessage(t *testing.T) {
	long := strings.Repeat("node-é does not answer; ", 200)
	r := &Report{Results: []Result{{Name: "kernel", Mark: snapshot.Passed, Fact: "Linux"}, {Name: "gossip", Mark: snapshot.Failed, Fact: long, Fix: "Allow it."}}}
	data, err := r.Encode()
	if err != nil || len(data) > maxMessage {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	back, err := Decode(string(data))
	if err != nil || len(back.Results) != 2 || !strings.HasPrefix(long, strings.TrimSuffix(back.Results[1].Fact, "…")) {
		t.Errorf("%+v, %v", back, err)
	}
}

// Whatever a container ends with, only known marks come out.
func FuzzDecode(f *testing.F) {
	f.Add(`{"results":[{"name":"kernel","mark":"passed","fact":"Linux"}]}`)
	f.Add(`{"results":[{"mark":"fine"}]}`)
	f.Add("exec format error")
	f.Fuzz(func(t *testing.T, message string) {
		r, err := Decode(message)
		if err != nil {
			return
		}
		for _, x := range r.Results {
			switch x.Mark {
			case snapshot.Passed, snapshot.Failed, snapshot.Skipped, snapshot.Unclear:
			default:
				t.Errorf("mark %q", x.Mark)
			}
		}
	})
}
