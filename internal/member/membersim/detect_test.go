package membersim

import (
	"slices"
	"testing"
)

func TestDetect(t *testing.T) {
	for _, n := range []int{3, 10, 100} {
		d, err := Detect(t.Context(), n, 20)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(d.Each)
		slices.Sort(d.Last)
		t.Log(n, d.Each[len(d.Each)/2], d.Each[len(d.Each)-1], d.Last[len(d.Last)/2], d.Last[len(d.Last)-1])
	}
}
