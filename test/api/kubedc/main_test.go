package kubedc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// rigs are API servers that no test uses now; nil is one that has not been started. Two
// tests run at the same time, each on its own.
var rigs = make(chan *rig.Rig, 2)

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	for range cap(rigs) {
		rigs <- nil
	}
	code := tree.Share(m.Run)
	for range cap(rigs) {
		if r := <-rigs; r != nil {
			if err := r.API.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// useRig gives a test an API server until it ends.
func useRig(t *testing.T) *rig.Rig {
	t.Helper()
	r := <-rigs
	t.Cleanup(func() { rigs <- r })
	if r != nil {
		return r
	}
	api, err := sandbox.StartAPI(context.Background(), sandbox.Options{ManagerArgs: []string{"--controllers=garbage-collector-controller,endpointslice-mirroring-controller"}})
	if err != nil {
		t.Fatal(err)
	}
	started, err := rig.New(context.Background(), api)
	if err != nil {
		t.Fatal(errors.Join(err, api.Stop()))
	}
	r = started
	return r
}
