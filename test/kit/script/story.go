package script

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Command is a command of scripts.
type Command = func(script *testscript.TestScript, negated bool, args []string)

// Tell runs the scripts of p one after the other, for they share what they are about.
// Each begins with setup, in a test of its own. With -update, what "cmp" compares
// with is written.
func Tell(t *testing.T, p testscript.Params, setup func(*testing.T, *testscript.Env) error) {
	t.Helper()
	p.RequireExplicitExec, p.RequireUniqueNames, p.UpdateScripts = true, true, *update
	p.Setup = func(env *testscript.Env) error { return setup(env.T().(sequential).T, env) }
	testscript.RunT(sequential{t}, p)
}

// sequential is a testing.T as testscript wants it.
type sequential struct{ *testing.T }

func (s sequential) Parallel() {}

func (s sequential) Verbose() bool { return testing.Verbose() }

func (s sequential) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(sequential{t}) })
}
