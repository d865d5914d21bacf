package stories

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"fairlead.io/sandbox"
	"fairlead.io/test/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) { os.Exit(rig.Main(m, sandbox.Options{}, &theRig)) }

// TestStories runs one story after the other: pools are for the whole cluster.
func TestStories(t *testing.T) {
	kube, err := sandbox.KubeBinary(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	testscript.RunT(sequential{t}, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                commands(kube),
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", theRig.API.Kubeconfig)
			env.Setenv("HOME", env.WorkDir)
			s := &story{rig: theRig, t: env.T().(sequential).T}
			theRig.Clean(s.t)
			env.Values[storyKey{}] = s
			s.start()
			env.Defer(func() { s.stop() })
			return nil
		},
	})
}
