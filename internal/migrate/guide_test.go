package migrate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	c := choice{
		holds: map[string]bool{"helm": true, "manifest": false},
		names: []string{"old-system", "lb", "release old", "release new"},
		each:  map[string][][]string{"pod": {{"pod-1", "a"}, {"pod-1", "b"}}},
	}
	got, err := c.steps("## Elsewhere\n\n**Look.** At old-system.\n\n## End\n", `An introduction.

    not a step

**1. Stop it.** In old-system, see [the page](x.md#y).
It goes on.

    stop --namespace old-system \
      --now

<!-- if helm -->
    forget release old
<!-- end -->
<!-- if manifest -->
    delete it
<!-- end -->

**2. Clean up** each pod, then go. More.

<!-- each pod -->
`+"```sh\nexec pod-1 <<'END'\n\n  x\nEND\n```"+`
<!-- end -->
<!-- if page -->
Only here.
<!-- end -->
<!-- if helm -->
<!-- steps Elsewhere -->
<!-- end -->
<!-- if manifest -->
<!-- steps Nowhere -->
<!-- end -->
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Number: "1", Title: "Stop it.", Parts: []Part{{Text: "In lb, see the page. It goes on."}, {Commands: "stop --namespace lb \\\n  --now"}, {Commands: "forget release new"}}},
		{Number: "2", Title: "Clean up each pod, then go.", Parts: []Part{{Text: "More."}, {Commands: "exec a <<'END'\n\n  x\nEND"}, {Commands: "exec b <<'END'\n\n  x\nEND"}}},
		{Title: "Look.", Parts: []Part{{Text: "At lb."}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	for _, wrong := range []string{"<!-- if unheard -->", "<!-- each thing -->", "<!-- steps Nowhere -->"} {
		if _, err := c.steps("", "**1. A.**\n\n"+wrong+"\n"); err == nil {
			t.Errorf("%s is no error", wrong)
		}
	}
	if err := c.inPage("old-system and release\nold and pod-1"); err != nil {
		t.Error(err)
	}
	if err := c.inPage("old-system and pod-1"); err == nil || !strings.Contains(err.Error(), `"release old"`) {
		t.Errorf("a name that the page does not have: %v", err)
	}
}

// What is in a cluster never becomes more than one word of a command.
func TestValuesAreQuoted(t *testing.T) {
	var v values
	v.set("class", "it's; $(rm), `x`")
	v.setJSON("list", []string{"a'b"})
	v.image("registry.example:5000/fairlead:1.2")
	want := ` --set 'class=it'\''s; $(rm)\, ` + "`x`" + `' --set-json 'list=["a'\''b"]' --set image.repository=registry.example:5000/fairlead --set image.tag=1.2`
	if got := v.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
