package kubedc

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

// TestScripts reads testdata/*.txtar: Services, each in "service", followed by what it
// asks for in "wish", or in "wish, in a class with pools".
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		var s *lb.Service
		return func(t *testing.T, name, text string) string {
			switch name {
			case "service":
				var object corev1.Service
				if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
					t.Fatalf("%v in:\n%s", err, text)
				}
				s = kubeapi.Service(&object)
			case "wish":
				return showWish(s, compat.Class{Words: Format})
			case "wish, in a class with pools":
				return showWish(s, compat.Class{Words: Format, Dialects: []lb.Dialect{lb.Native}})
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

var readings = compat.Readings{
	{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
	{Dialect: Dialect{}, Reading: Dialect{}.Read(compat.Objects{})},
}

func showWish(s *lb.Service, in compat.Class) string {
	r := readings.Request(s, nil, in)
	w, _ := Read(s, r.Addresses)
	var out strings.Builder
	show := func(what string, value any, silent bool) {
		if !silent {
			fmt.Fprintf(&out, "%s: %v\n", what, value)
		}
	}
	if r.Invalid == nil {
		show("EIp", w.EIp, w.EIp == "")
		show("network type", w.NetworkType, w.NetworkType == "")
		show("addresses", w.Addresses, len(w.Addresses) == 0)
		show("ports", w.Ports, len(w.Ports) == 0)
	} else {
		show("invalid", r.Invalid.Text, false)
	}
	for _, remark := range Remarks(s) {
		show("remark", remark, false)
	}
	if out.Len() == 0 {
		return "any address\n"
	}
	return out.String()
}
