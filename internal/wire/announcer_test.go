package wire

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sent is a frame and when it was sent.
type sent struct {
	At   time.Duration
	Addr netip.Addr
	Form Form
}

// recorder is an Announcer under way, and what it sent. The Announcer's lock is
// held while it sends, so it is the recorder's, too.
type recorder struct {
	*Announcer
	began  time.Time
	frames []sent
	err    error
}

// record runs f beside an Announcer, in virtual time.
func record(t *testing.T, pace Pace, f func(r *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{began: time.Now()}
		r.Announcer = NewAnnouncer(func(addr netip.Addr, form Form) error {
			r.frames = append(r.frames, sent{time.Since(r.began), addr, form})
			return r.err
		}, pace)
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		f(r)
		cancel()
		synctest.Wait()
	})
}

// after lets time pass, and returns what was sent meanwhile.
func (r *recorder) after(d time.Duration) []sent {
	<-time.After(d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	frames := r.frames
	r.frames = nil
	return frames
}

// fail makes sending fail, or work again.
func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func addresses(n int) (all []netip.Addr) {
	for addr := netip.MustParseAddr("10.0.0.0"); len(all) < n; addr = addr.Next() {
		all = append(all, addr)
	}
	return all
}

func TestRounds(t *testing.T) {
	record(t, Pace{}, func(r *recorder) {
		r.Own(v4, v6)
		r.Own(v4) // changes nothing
		var want []sent
		for _, at := range []time.Duration{0, 50, 250, 1100, 2200, 4400} {
			at *= time.Millisecond
			if at == 0 { // the first frames of all go first
				want = append(want, sent{at, v4, Plain}, sent{at, v6, Plain}, sent{at, v4, Reply})
				continue
			}
			want = append(want, sent{at, v6, Plain}, sent{at, v4, Plain}, sent{at, v4, Reply})
		}
		if diff := cmp.Diff(want, r.after(time.Hour), cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
		if c := r.Counts(); c != (Counts{Sent: 18, Owned: 2}) {
			t.Errorf("%+v", c)
		}
	})
}

func TestManyAddresses(t *testing.T) {
	const n, fence = 1000, time.Second
	record(t, Pace{}, func(r *recorder) {
		r.Own(addresses(n)...)
		frames := r.after(time.Minute)
		if want := n * 2 * 6; len(frames) != want {
			t.Fatalf("%d frames, want %d", len(frames), want)
		}
		first, last := map[netip.Addr]time.Duration{}, map[netip.Addr]time.Duration{}
		for i, f := range frames {
			if _, seen := first[f.Addr]; !seen {
				first[f.Addr] = f.At
			}
			last[f.Addr] = f.At
			for _, limit := range []struct {
				frames int
				in     time.Duration
			}{{20, time.Millisecond}, {220, 100 * time.Millisecond}, {2020, time.Second}} {
				if i >= limit.frames && f.At-frames[i-limit.frames].At < limit.in {
					t.Fatalf("frame %d at %s: more than %d in %s", i, f.At, limit.frames, limit.in)
				}
			}
		}
		for addr := range first {
			if first[addr] > 500*time.Millisecond {
				t.Errorf("%s is first announced after %s", addr, first[addr])
			}
			if last[addr] < 4*fence {
				t.Errorf("%s is last announced after %s", addr, last[addr])
			}
		}
		if end := frames[len(frames)-1].At; end > 8*time.Second {
			t.Errorf("it takes %s in all", end)
		}
	})
}

// A take-over does not wait for the repetitions of an earlier one.
func TestFirstFramesGoFirst(t *testing.T) {
	record(t, Pace{}, func(r *recorder) {
		r.Own(addresses(1000)...)
		r.after(700 * time.Millisecond)
		if c := r.Counts(); c.Waiting > 0 {
			t.Errorf("%+v", c)
		}
		r.Own(v6)
		for _, f := range r.after(15 * time.Millisecond) {
			if f.Addr == v6 {
				return
			}
		}
		t.Error("no frame within 15 ms")
	})
}

func TestDisown(t *testing.T) {
	record(t, Pace{Refresh: time.Second}, func(r *recorder) {
		r.Own(v4, v6)
		r.after(300 * time.Millisecond)
		r.Disown(v4, v6, v6)
		r.Disown(v4)
		if frames := r.after(time.Hour); frames != nil {
			t.Errorf("sent %v", frames)
		}
		r.Own(v6) // is a take-over again
		if frames := r.after(time.Millisecond); len(frames) != 1 {
			t.Errorf("sent %v", frames)
		}
	})
	record(t, Pace{}, func(r *recorder) {
		all := addresses(1000)
		r.Own(all...)
		r.after(100 * time.Millisecond)
		r.Disown(all...)
		if frames := r.after(time.Hour); frames != nil || r.Counts().Waiting > 0 {
			t.Errorf("sent %d, %+v", len(frames), r.Counts())
		}
	})
}

func TestRefresh(t *testing.T) {
	record(t, Pace{Refresh: time.Minute}, func(r *recorder) {
		r.Own(v4)
		r.after(5 * time.Second)
		if frames := r.after(10 * time.Minute); len(frames) != 2*10 {
			t.Errorf("sent %v", frames)
		}
	})
}

// A process that was stopped must not go on where it stopped.
func TestNothingIsSentWithoutAFence(t *testing.T) {
	var allowed atomic.Bool
	allowed.Store(true)
	record(t, Pace{Refresh: time.Second, Allowed: allowed.Load}, func(r *recorder) {
		r.Own(v6)
		r.after(100 * time.Millisecond)
		allowed.Store(false)
		if frames := r.after(time.Minute); frames != nil {
			t.Errorf("sent %v", frames)
		}
		if c := r.Counts(); c.Sent != 2 || c.Refused < 50 || c.Refused > 70 {
			t.Errorf("%+v", c)
		}
		allowed.Store(true)
		if frames := r.after(time.Second); len(frames) != 1 {
			t.Errorf("sent %v", frames)
		}
	})
}

// What was announced before is refreshed and defended, but not announced again.
func TestAdopt(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	record(t, Pace{Refresh: time.Minute}, func(r *recorder) {
		r.Adopt(addr)
		if got := r.after(59 * time.Second); len(got) > 0 {
			t.Errorf("announced: %v", got)
		}
		if got := r.after(2 * time.Second); len(got) == 0 {
			t.Error("not refreshed")
		}
		if !r.Defend(addr) || len(r.after(time.Second)) == 0 {
			t.Error("not defended")
		}
	})
	record(t, Pace{}, func(r *recorder) {
		r.Adopt(addr)
		if got := r.after(time.Hour); len(got) > 0 {
			t.Errorf("announced: %v", got)
		}
		if r.Again(); len(r.after(time.Second)) == 0 {
			t.Error("not announced again")
		}
	})
}

func TestAgain(t *testing.T) {
	record(t, Pace{}, func(r *recorder) {
		r.Own(v4, v6)
		r.after(time.Hour)
		r.Again()
		if frames := r.after(time.Hour); len(frames) != 18 {
			t.Errorf("sent %v", frames)
		}
		r.Again(v6, v6.Next())
		if frames := r.after(time.Hour); len(frames) != 6 {
			t.Errorf("sent %v", frames)
		}
	})
}

func TestDefend(t *testing.T) {
	record(t, Pace{}, func(r *recorder) {
		if r.Defend(v6) {
			t.Error("defended what is not owned")
		}
		r.Own(v6)
		r.after(100 * time.Millisecond)
		if !r.Defend(v6) {
			t.Error("not defended")
		}
		if frames := r.after(time.Millisecond); len(frames) != 1 {
			t.Errorf("sent %v", frames)
		}
		if frames := r.after(5 * time.Second); len(frames) != 3 { // the other rounds follow
			t.Errorf("sent %v", frames)
		}
		if r.Defend(v6) {
			t.Error("defended twice within ten seconds")
		}
		r.after(5 * time.Second)
		if !r.Defend(v6) {
			t.Error("not defended after ten seconds")
		}
		if frames := r.after(time.Hour); len(frames) != 1 {
			t.Errorf("sent %v", frames)
		}
	})
}

func TestFailuresAreCountedAndSurvived(t *testing.T) {
	record(t, Pace{}, func(r *recorder) {
		r.fail(errors.New("the link is down"))
		r.Own(v6)
		r.after(100 * time.Millisecond)
		r.fail(nil)
		r.after(time.Hour)
		if c := r.Counts(); c != (Counts{Sent: 4, Failed: 2, Owned: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

func TestSlowPace(t *testing.T) {
	record(t, Pace{FramesPerSecond: 10}, func(r *recorder) {
		r.Own(addresses(20)...)
		if frames := r.after(950 * time.Millisecond); len(frames) != 10 {
			t.Errorf("sent %d frames in a second", len(frames))
		}
	})
}

func BenchmarkAnnouncer(b *testing.B) {
	all := addresses(10000)
	for b.Loop() {
		a := NewAnnouncer(func(netip.Addr, Form) error { return nil }, Pace{FramesPerSecond: 1e9})
		a.Own(all...)
		for range all {
			a.step()
		}
	}
}
