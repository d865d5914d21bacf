package ipam

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets the properties be checked with the same examples in every run, so that a
// change is what makes them fail. A search for new ones says how many:
//
//	go test ./internal/ipam -run TestAgainstModel -rapid.checks=20000
func TestMain(m *testing.M) {
	flag.Parse()
	search := false
	flag.Visit(func(f *flag.Flag) {
		search = search || f.Name == "rapid.checks" || f.Name == "rapid.seed" || f.Name == "rapid.failfile"
	})
	if !search {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
