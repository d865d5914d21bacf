package wire

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// A survey finds who has addresses, by both kinds of questions, and counts nobody who
// only asks for one, or announces one without having heard the question.
func TestSurvey(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 3)
			hosts[0].add(t, f.owner)
			hosts[0].add(t, f.vipPrefix)
			hosts[1].add(t, f.client)
			a, b, c := hosts[0].open(t), hosts[1].open(t), hosts[2].open(t)
			owner, _, _ := strings.Cut(f.owner, "/")
			client, _, _ := strings.Cut(f.client, "/")
			witness := Question{Addr: netip.MustParseAddr(owner), From: netip.MustParseAddr(client)}

			asking, stop := context.WithCancel(t.Context())
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				for asking.Err() == nil {
					_, _ = c.Probe(asking, f.another, nil)
				}
			}()
			announced := make(chan error, 1)
			deaf := f.vip.Next().Next()
			go func() {
				for asking.Err() == nil {
					if err := c.Announce(deaf); err != nil {
						announced <- err
						return
					}
				}
				announced <- nil
			}()
			answers, err := b.Survey(t.Context(), []Question{{Addr: f.vip}, {Addr: f.another}, witness, {Addr: f.vip}, {Addr: deaf, From: witness.From}})
			stop()
			<-asked
			if err := <-announced; err != nil {
				t.Fatal(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[netip.Addr]string{f.vip: own(t, a), witness.Addr: own(t, a)}
			for addr, mac := range answers {
				if mac.String() != want[addr] {
					t.Errorf("%s is at %s, want %q", addr, mac, want[addr])
				}
			}
			if len(answers) != len(want) {
				t.Errorf("answers %v, want %v", answers, want)
			}

			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := b.Survey(ended, []Question{{Addr: f.another}}); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled survey: %v", err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Survey(t.Context(), []Question{{Addr: f.another}}); err == nil {
				t.Error("a survey on a closed port succeeds")
			}
		})
	}
}
