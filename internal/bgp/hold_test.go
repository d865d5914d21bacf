package bgp

import (
	"testing"
	"testing/synctest"
	"time"
)

// A process that stood still reads what the router has said meanwhile before it calls the router
// silent.
func TestHoldTimeAfterAStall(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration // when the timer fires
		speaks bool          // after that
		ends   bool          // at once
		later  bool          // with the next
	}{
		"in time":                  {9 * time.Second, false, true, true},
		"it spoke":                 {8 * time.Second, true, false, false},
		"stood still, and it is":   {time.Minute, false, false, true},
		"stood still, it is there": {time.Minute, true, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c0 := &conversation{state: Established, agreed: agreed{Hold: 9 * time.Second}, began: time.Now()}
			<-time.After(c.silent)
			hold := time.NewTimer(time.Hour)
			if f := c0.expired(hold); (f != nil) != c.ends {
				t.Errorf("%s: %v", name, f)
			}
			if c.speaks {
				c0.last.Store(int64(time.Since(c0.began)))
			}
			if c.ends {
				return
			}
			<-hold.C
			if f := c0.expired(hold); (f != nil) != c.later {
				t.Errorf("%s, later: %v", name, f)
			}
		})
	}
}
