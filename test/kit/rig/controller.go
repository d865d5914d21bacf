package rig

import (
	"context"
	"log/slog"
	"net/netip"
	"os/exec"
	"sync"
	"testing"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/reasons"
	"fairlead.io/internal/setup"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/process"
)

// Start runs a controller in this process until the returned function is called
// or the test ends. What changes its configuration comes first; objects of others have
// their usual names, unless a change calls setup.Add with other ones.
func (r *Rig) Start(t testing.TB, change ...func(*controller.Options)) (stop func()) {
	t.Helper()
	o := controller.Options{
		REST:           r.API.RESTConfig(),
		Config:         config.Default(),
		Log:            slog.New(slog.NewTextHandler(process.LogOf(t, "the controller"), nil)),
		Namespace:      "kube-system",
		Reasons:        reasons.All,
		Workers:        8,
		HealthAddress:  "127.0.0.1:0",
		MetricsAddress: "127.0.0.1:0",
	}
	for _, f := range change {
		f(&o)
	}
	if _, added := o.Backends[config.Announce]; !added {
		setup.Add(&o, setup.Names{MetalLBNamespace: MetalLBNamespace})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("controller: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Launch runs binary as "fairlead controller" against the rig's API server.
func (r *Rig) Launch(t testing.TB, binary string, args ...string) *process.Process {
	t.Helper()
	return process.Start(t, exec.Command(binary, append([]string{"controller", "--kubeconfig", r.API.Kubeconfig}, args...)...))
}

// FreeAddress is where a controller can listen, again and again: no outgoing
// connection gets this port while the controller is stopped.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := sandbox.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String()
}
