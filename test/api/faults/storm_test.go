package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/tree"
)

// storm kills controllers with SIGKILL while Services come and go.
type storm struct {
	name          string
	writers, most int // how many create and delete, at most how many Services each
	kills         int
	args          []string // of the controllers
	// meanwhile, if set, goes on until ctx ends.
	meanwhile func(ctx context.Context)
}

// rage runs one controller after the other, kills each in the midst of its work,
// and leaves one running when all is quiet.
func (s storm) rage(t *testing.T, l *ledger) {
	t.Helper()
	binary := tree.Binary(t, "fairlead")
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for w := range s.writers {
		working.Go(func() { comeAndGo(ctx, t, fmt.Sprintf("%s-%d", s.name, w), s.most) })
	}
	if s.meanwhile != nil {
		working.Go(func() { s.meanwhile(ctx) })
	}
	g := newGateway(t)
	process.Storm(s.kills, func() *process.Process {
		// A write that was under way when its controller was killed may be done after its
		// successor has read everything. With leader election, the successor waits for the
		// Lease before. Here it waits for the writes; TestLateWrite does not.
		g.quiet(t)
		return g.launch(t, binary, append(s.args, "--log-level=warn")...)
	}, func() {
		// Let it get some work done, so that it dies at all stages of it; a start
		// without any work is a stage, too.
		wanted, patience := rand.IntN(12), time.After(2*time.Second)
		for done := 0; done < wanted; {
			select {
			case <-l.changes:
				done++
			case <-patience:
				done = wanted
			}
		}
	})
	cancel()
	working.Wait()
	g.quiet(t)
	g.launch(t, binary, s.args...)
}

// survived ends the ledger of a storm: no two Services had one address at any moment, and
// none ever lost its address.
func (l *ledger) survived(t *testing.T) {
	t.Helper()
	l.close(t)
	if len(l.doubles) > 0 || len(l.lost) > 0 {
		t.Errorf("addresses with two holders: %v; taken from a Service: %v", l.doubles, l.lost)
	}
}

// comeAndGo keeps creating and deleting Services, at most most at a time, until
// ctx ends.
func comeAndGo(ctx context.Context, t *testing.T, prefix string, most int) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var live []*corev1.Service
	for n := 0; ctx.Err() == nil; n++ {
		if len(live) == most || len(live) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(live))
			if err := client.IgnoreNotFound(theRig.Client.Delete(context.Background(), live[i])); err != nil {
				t.Errorf("delete: %v", err)
			}
			live = append(live[:i], live[i+1:]...)
			continue
		}
		s := newService(fmt.Sprintf("%s-%d", prefix, n))
		if err := theRig.Client.Create(context.Background(), s); err != nil {
			t.Errorf("create: %v", err)
			return
		}
		live = append(live, s)
	}
}
