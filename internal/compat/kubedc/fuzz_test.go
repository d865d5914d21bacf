package kubedc

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairlead.io/internal/lb"
)

// Whatever a tenant writes, the wish is one that can be granted, or there is a sentence
// that says what is wrong with it.
func FuzzRead(f *testing.F) {
	f.Add("true", "", "public", "", "192.0.2.7", "")
	f.Add("maybe", "web", "moon", "cloud", "", "2001:db8::7")
	f.Add("false", " a/b ", "", " Cloud ", "192.0.2.7", "192.0.2.8")
	f.Fuzz(func(t *testing.T, gateway, name, kind, old, first, second string) {
		s := &lb.Service{Annotations: map[string]string{prefix + name: gateway}}
		for key, value := range map[string]string{AnnotationDefaultGateway: gateway, AnnotationEIp: name, AnnotationNetworkType: kind, AnnotationOldNetworkType: old} {
			if value != "-" {
				s.Annotations[key] = value
			}
		}
		var addresses []netip.Addr
		for _, text := range []string{first, second} {
			if a, err := lb.ParseAddr(text); err == nil {
				addresses = append(addresses, a)
			}
		}
		w, problems := Read(s, addresses)
		if again, problemsAgain := Read(s, addresses); !reflect.DeepEqual(w, again) || !slices.Equal(problems, problemsAgain) {
			t.Errorf("first %+v, then %+v", w, again)
		}
		for _, p := range problems {
			if p == "" || len(p) > 1<<10 || !utf8.ValidString(p) || strings.Contains(p, "%!") {
				t.Errorf("says %q", p)
			}
		}
		for _, r := range Remarks(s) {
			if !r.EventOnly() || !r.Ready() {
				t.Errorf("%s keeps the Service from being served", r)
			}
		}
		if len(problems) > 0 {
			return
		}
		if w.EIp != "" && len(validation.IsDNS1123Subdomain(w.EIp)) > 0 || w.NetworkType != "" && !slices.Contains(networkTypes, w.NetworkType) {
			t.Errorf("asks for %+v", w)
		}
		if len(w.Addresses) > 1 && w.Addresses[0].Is4() == w.Addresses[1].Is4() {
			t.Errorf("asks for %v", w.Addresses)
		}
	})
}

// Whatever the annotations of a namespace say, a place has a router, and names each switch
// once.
func FuzzLocate(f *testing.F) {
	f.Add("lr0", "ls0,ls1", "shalb-dev", true, true)
	f.Add("", ",,", "x", true, false)
	f.Add(" ", strings.Repeat("a,", 100), "shalb-dev", false, true)
	f.Fuzz(func(t *testing.T, router, switches, name string, hasRouter, hasSwitches bool) {
		namespace := &metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}
		if hasRouter {
			namespace.Annotations[AnnotationRouter] = router
		}
		if hasSwitches {
			namespace.Annotations[AnnotationSwitches] = switches
		}
		p, ok, problem := Locate(namespace, project())
		switch {
		case !ok && !reflect.DeepEqual(p, Place{}), ok && problem != "", ok && p.Router == "", ok && strings.TrimSpace(p.Router) != p.Router, len(p.Switches) > maxSwitches:
			t.Errorf("%+v, %v, %q", p, ok, problem)
		}
		for i, s := range p.Switches {
			if s == "" || strings.ContainsAny(s, ",") || slices.Contains(p.Switches[:i], s) {
				t.Errorf("switches %q", p.Switches)
			}
		}
	})
}
