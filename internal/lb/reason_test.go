package lb

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// declaredCodes returns the constants of type Code in the source, by value.
func declaredCodes(t *testing.T) map[Code]string {
	t.Helper()
	files, err := filepath.Glob("reason_*.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[Code]string{}
	look := func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
			return true
		}
		for i, name := range spec.Names {
			value, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes[Code(value)] = name.Name
		}
		return true
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, look)
	}
	return codes
}

// The list is closed: every constant is in it, under its own name, and nothing
// else is.
func TestReasonsAreComplete(t *testing.T) {
	codes := declaredCodes(t)
	if len(codes) < 20 {
		t.Fatalf("only %d codes found", len(codes))
	}
	for code, name := range codes {
		if string(code) != name {
			t.Errorf("%s is spelled %q", name, code)
		}
		if _, ok := Reasons[code]; !ok {
			t.Errorf("%s is not in Reasons", code)
		}
	}
	for code := range Reasons {
		if _, ok := codes[code]; !ok {
			t.Errorf("%s is no constant", code)
		}
	}
}

func TestReasonsAreSentences(t *testing.T) {
	camelCase := regexp.MustCompile(`^([A-Z][a-z0-9]+)+$`)
	for code, about := range Reasons {
		if !camelCase.MatchString(string(code)) {
			t.Errorf("%s is not CamelCase", code)
		}
		for what, s := range map[string]string{"example": about.Example(), "means": about.Means, "do": about.Do} {
			switch {
			case strings.Contains(s, "%!"):
				t.Errorf("%s: %s has a blank that is not filled: %s", code, what, s)
			case s == "" || !strings.HasSuffix(s, ".") || strings.Contains(s, "  "):
				t.Errorf("%s: %s is no sentence: %q", code, what, s)
			}
		}
		if !slices.Contains([]string{"Service", "Pool", "Agent", "Node", "L2Advertisement", "MetalLB's kinds", "MetalLB's BGP kinds", "ConfigMap"}, about.On) {
			t.Errorf("%s is on %q", code, about.On)
		}
		if about.On != "Service" && about.MetalLB != "" {
			t.Errorf("%s: MetalLB's events are on Services", code)
		}
		if strings.HasPrefix(string(code), "Pool") && about.On == "Pool" && !about.Ready && !about.Warning && code != PoolDisabled {
			t.Errorf("%s is neither fine nor a warning", code)
		}
	}
}

// Say and With write the same.
func TestSay(t *testing.T) {
	for code, about := range Reasons {
		if strings.Count(about.text, "%") != strings.Count(about.text, "%s") {
			continue
		}
		var args []string
		for _, a := range about.sample {
			args = append(args, fmt.Sprint(a))
		}
		if got, want := code.Say(args...), code.With(about.sample...); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
	// A % in what is said is not read again.
	if got := Ready.Say("%s", "%d").Text; !strings.Contains(got, "%s") || !strings.Contains(got, "%d") {
		t.Errorf("says %q", got)
	}
}

// Whatever a user wrote, a condition stays below what the API server takes, and
// is text.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("ä€", 100_000)
	for _, r := range []Reason{InvalidRequest.With(long), InvalidRequest.With("x" + long), OutOfPool.Say("192.0.2.7", long)} {
		if n := len(r.Text); n > 8192 || !utf8.ValidString(r.Text) || !strings.HasSuffix(r.Text, "…") {
			t.Errorf("%s has %d bytes and ends in %q", r.Code, n, r.Text[n-8:])
		}
	}
}

func TestAnd(t *testing.T) {
	r := InvalidRequest.With("Annotation a is not known").And(FamilyMismatch.With("192.0.2.7", IPv6))
	if r.Code != InvalidRequest || !strings.HasPrefix(r.Text, "Annotation a is not known. Correct it. The requested loadBalancer IP(s) [192.0.2.7]") {
		t.Errorf("%v", r)
	}
	if long := InvalidRequest.With(strings.Repeat("a", 4096)); len(long.And(long).Text) > 4200 {
		t.Error("not cut")
	}
}

func TestKeeping(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	for _, tt := range []struct {
		keeps []netip.Addr
		want  string
	}{
		{nil, ""},
		{[]netip.Addr{four}, " Until then the Service keeps 192.0.2.7."},
		{[]netip.Addr{four, six}, " Until then the Service keeps 192.0.2.7 and 2001:db8::7."},
		{[]netip.Addr{four, six, six}, " Until then the Service keeps 192.0.2.7, 2001:db8::7 and 2001:db8::7."},
	} {
		r := NoPool.With()
		if got := r.Keeping(tt.keeps); got.Code != NoPool || got.Text != r.Text+tt.want {
			t.Errorf("keeping %v: %q", tt.keeps, got.Text)
		}
	}
}

func TestReasonFacts(t *testing.T) {
	if !Ready.With("x", "y").Ready() || Ready.With("x", "y").Warning() {
		t.Error("Ready is not ready")
	}
	if r := NoPool.With(); r.Ready() || !r.Warning() || !strings.HasPrefix(r.String(), "NoPool: ") {
		t.Errorf("NoPool: %v", r)
	}
	if (Reason{Code: "Unheard"}).Ready() {
		t.Error("an unknown code is ready")
	}
}
