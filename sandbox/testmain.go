package sandbox

import (
	"context"
	"fmt"
	"os"
)

// TestMain runs the tests of a package against one API server, which it puts
// into *api before they start and stops after them. It returns the exit code:
//
//	var api *sandbox.API
//
//	func TestMain(m *testing.M) {
//		os.Exit(sandbox.TestMain(m, sandbox.Options{Audit: true}, &api))
//	}
func TestMain(m interface{ Run() int }, o Options, api **API) int {
	started, err := StartAPI(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*api = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
