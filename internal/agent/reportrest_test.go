package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// slowObserver takes that long to hear of Services.
type slowObserver struct {
	nobody
	takes time.Duration
	heard int
}

func (o *slowObserver) Presence(map[types.NamespacedName]Presence) {
	o.heard++
	<-time.After(o.takes)
}

// After a report the loop does other things, for nine times as long, but the next report is
// not much later than the change.
func TestReportsRest(t *testing.T) {
	for takes, rest := range map[time.Duration]time.Duration{
		20 * time.Millisecond: 180 * time.Millisecond,
		time.Second:           maxReportRest,
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &slowObserver{takes: takes}
			a := newTestAgent(t)
			a.observer, a.synced = o, true
			report := func() {
				a.presenceDirty = true
				a.reportInTurn(time.Now())
			}
			report()
			same(t, "the first", o.heard, 1)
			began := time.Now()
			report()
			report()
			same(t, "too early", o.heard, 1)
			<-a.reportTimer.C
			same(t, "rested", time.Since(began), rest)
			a.reportInTurn(time.Now())
			same(t, "after the rest", o.heard, 2)
		})
	}
}
