package lb

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"
)

// Say and With write the same.
func TestSay(t *testing.T) {
	for code, about := range Common {
		if strings.Count(about.Text, "%") != strings.Count(about.Text, "%s") {
			continue
		}
		var args []string
		for _, a := range about.Sample {
			args = append(args, fmt.Sprint(a))
		}
		if got, want := code.Say(args...), code.With(about.Sample...); got != want {
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
		r := NoPool.With("a pool")
		if got := r.Keeping(tt.keeps); got.Code != NoPool || got.Text != r.Text+tt.want {
			t.Errorf("keeping %v: %q", tt.keeps, got.Text)
		}
	}
}

func TestReasonFacts(t *testing.T) {
	if !Ready.With("x", "y").Ready() || Ready.With("x", "y").Warning() {
		t.Error("Ready is not ready")
	}
	if r := NoPool.With("a pool"); r.Ready() || !r.Warning() || !strings.HasPrefix(r.String(), "NoPool: ") {
		t.Errorf("NoPool: %v", r)
	}
	if (Reason{Code: "Unheard"}).Ready() {
		t.Error("an unknown code is ready")
	}
	if r := Announced.With("x", "y", "z"); !r.EventOnly() || NoPool.With("x").EventOnly() {
		t.Errorf("Announced: %v", r)
	}
}

// What is read from an object says the same as what was written there.
func TestRebuilt(t *testing.T) {
	r := NoPool.With("a pool")
	if back := Rebuilt(r.Code, r.Text, false); !back.Equal(r) || !r.Equal(back) || back.Ready() || !back.Warning() {
		t.Errorf("%+v", back)
	}
	if back := Rebuilt(Ready, "x", true); !back.Ready() || back.Equal(r) || back.Equal(Rebuilt(Ready, "y", true)) {
		t.Errorf("%+v", back)
	}
}

func TestMerge(t *testing.T) {
	a, b := Table{"A": {Means: "a"}}, Table{"B": {Means: "b"}}
	if all, err := Merge(a, b); err != nil || len(all) != 2 || all["B"].Means != "b" || len(a) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := Merge(a, b, Table{"A": {}}); err == nil || all != nil {
		t.Errorf("a code of two tables: %v, %v", all, err)
	}
}
