package cloudscale

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/cloudscale"
)

// What changes while a list is read is in it afterwards, whether the list has it
// or not.
func TestChangesWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, failure := 0, error(nil)
		s := newShelf(func(context.Context, cloudscale.Tags) ([]string, error) {
			reads++
			list := []string{"old", "dropped"}
			<-time.After(time.Second)
			return list, failure
		}, func(o *string) string { return *o })
		read := func(oldest, known time.Time) []string {
			t.Helper()
			all, err := s.since(t.Context(), oldest, known)
			if !errors.Is(err, failure) {
				t.Fatal(err)
			}
			slices.Sort(all)
			return all
		}
		began := time.Now()
		done := make(chan []string)
		go func() { done <- read(began, time.Time{}) }()
		synctest.Wait()
		s.put("new")
		s.put("old")
		s.drop("dropped")
		if got := <-done; !slices.Equal(got, []string{"new", "old"}) {
			t.Errorf("%v", got)
		}
		// It is read once for all who trust it, and again for who does not.
		if read(began, time.Time{}); reads != 1 {
			t.Errorf("read %d times", reads)
		}
		if read(began.Add(time.Millisecond), time.Time{}); reads != 2 {
			t.Errorf("read %d times", reads)
		}
		if read(time.Now(), time.Now()); reads != 2 {
			t.Errorf("what is known was read: %d times", reads)
		}
		// What was forgotten while it was read has to be read again.
		go func() { done <- read(time.Now(), time.Time{}) }()
		synctest.Wait()
		s.forget()
		<-done
		if read(began, time.Time{}); reads != 4 {
			t.Errorf("read %d times", reads)
		}
		failure = errors.New("no")
		s.forget()
		if got := read(began, time.Time{}); got != nil {
			t.Errorf("%v", got)
		}
	})
}
