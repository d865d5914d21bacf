package pages

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommands(t *testing.T) {
	var got []Command
	for _, b := range Blocks("page.md", []byte(`# Page

Type this:

    # a comment
    kubectl get nodes   # what it does
    helm install x \
      --set a=b \
      --wait

- In a list:

      sed 's#a#b#' file | kubectl apply -f - <<END
      kind: Pool
      END
      make up

- A loop, and what a pipe continues:

      for n in 1 2; do
        kubectl get $n |
          grep x
      done

A transcript:

    $ kubectl get pods
    NAME
    $ kubectl get \
      agents

Not for a shell:

    apiVersion: v1

~~~yaml
kubectl: x
~~~

~~~sh
./anything
~~~
`)) {
		got = append(got, b.Commands()...)
	}
	want := []Command{
		{Page: "page.md", Line: 6, Text: "kubectl get nodes"},
		{Page: "page.md", Line: 7, Text: "helm install x --set a=b --wait"},
		{Page: "page.md", Line: 13, Text: "sed 's#a#b#' file | kubectl apply -f - <<END\nkind: Pool\nEND"},
		{Page: "page.md", Line: 16, Text: "make up"},
		{Page: "page.md", Line: 20, Text: "for n in 1 2; do\n  kubectl get $n |\n    grep x\ndone"},
		{Page: "page.md", Line: 27, Text: "kubectl get pods", Output: []string{"NAME"}},
		{Page: "page.md", Line: 29, Text: "kubectl get agents"},
		{Page: "page.md", Line: 41, Text: "./anything"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}
