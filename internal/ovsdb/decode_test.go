package ovsdb

import (
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"unix:/run/ovn/ovnnb_db.sock":       "unix:/run/ovn/ovnnb_db.sock",
		"tcp:10.0.0.1:6641":                 "tcp:10.0.0.1:6641",
		"tcp:[::1]:6641":                    "tcp:[::1]:6641",
		" ssl:ovn-nb.kube-system.svc:6641 ": "ssl:ovn-nb.kube-system.svc:6641",
		"tpc:10.0.0.1:6641":                 "",
		"tcp:10.0.0.1":                      "",
		"tcp::6641":                         "",
		"tcp:10.0.0.1:0":                    "",
		"tcp:10.0.0.1:99999":                "",
		"ssl:::1:6641":                      "",
		"unix:relative":                     "",
		"":                                  "",
	} {
		e, err := ParseEndpoint(text)
		if got := e.String(); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if all, err := ParseEndpoints("tcp:10.0.0.1:6641,tcp:10.0.0.2:6641"); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
}

func TestParseUpdates(t *testing.T) {
	got, err := parseUpdates(json.RawMessage(`{"T":{
		"a":{"initial":{"name":"x","set":["set",[["uuid","u1"],["uuid","u2"]]],"one":["uuid","u3"],"n":12345678901234567,"b":true,"empty":["set",[]]}},
		"b":{"modify":{"m":["map",[["k","v"],["k2",""]]]}},
		"c":{"delete":null}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Updates{"T": {
		"a": {Inserted, map[string]Value{"name": {Set: []string{"x"}}, "set": {Set: []string{"u1", "u2"}}, "one": {Set: []string{"u3"}},
			"n": {Set: []string{"12345678901234567"}}, "b": {Set: []string{"true"}}, "empty": {Set: []string{}}}},
		"b": {Modified, map[string]Value{"m": {Map: map[string]string{"k": "v", "k2": ""}}}},
		"c": {Deleted, map[string]Value{}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`[]`, `{"T":{"a":{}}}`, `{"T":{"a":{"insert":{},"delete":null}}}`, `{"T":{"a":{"upsert":{}}}}`,
		`{"T":{"a":{"insert":{"c":["set"]}}}}`, `{"T":{"a":{"insert":{"c":["set",["set",[]]]}}}}`, `{"T":{"a":{"insert":{"c":["map",[["k"]]]}}}}`,
		`{"T":{"a":{"insert":{"c":null}}}}`, `{"T":{"a":{"insert":{"c":["uuid",1]}}}}`, `{"T":{"a":{"insert":{"c":{}}}}}`} {
		if got, err := parseUpdates(json.RawMessage(bad)); err == nil {
			t.Errorf("%s is read as %v", bad, got)
		}
	}
}

func TestDifferences(t *testing.T) {
	m := map[string]string{"stays": "1", "goes": "1", "changes": "1"}
	ApplyMap(m, map[string]string{"goes": "1", "changes": "2", "comes": "1"})
	if diff := cmp.Diff(map[string]string{"stays": "1", "changes": "2", "comes": "1"}, m); diff != "" {
		t.Error(diff)
	}
	s := map[string]struct{}{"stays": {}, "goes": {}}
	added, removed := ApplySet(s, []string{"goes", "comes"})
	if diff := cmp.Diff([][]string{{"comes"}, {"goes"}}, [][]string{added, removed}); diff != "" {
		t.Error(diff)
	}
}

func TestParseResults(t *testing.T) {
	if _, err := parseResults(json.RawMessage(`[{"count":1},{"uuid":["uuid","u"]}]`), 2); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`[{},{"error":"timed out","details":"x"},null]`, `[{},{},{"error":"constraint violation"}]`, `[{}]`, `null`, `{}`} {
		if r, err := parseResults(json.RawMessage(bad), 2); err == nil {
			t.Errorf("%s is read as %v", bad, r)
		}
	}
}

func FuzzParseUpdates(f *testing.F) {
	f.Add([]byte(`{"T":{"a":{"insert":{"c":["set",[["uuid","x"],1,true,"s"]],"m":["map",[["k","v"]]]}}}}`))
	f.Add([]byte(`{"T":{"c":{"delete":null}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		updates, err := parseUpdates(data)
		if err != nil {
			return
		}
		for table, rows := range updates {
			for id, u := range rows {
				for column, v := range u.Columns {
					if v.Set != nil && v.Map != nil {
						t.Errorf("column %s of row %s of table %s is both a set and a map", column, id, table)
					}
					if v.Map != nil {
						m := map[string]string{}
						ApplyMap(m, v.Map)
						ApplyMap(m, v.Map)
						if len(m) != 0 {
							t.Errorf("a difference that is applied twice leaves %v", m)
						}
					}
				}
			}
		}
	})
}

// FuzzConn lets a server send anything: the connection ends, and nothing hangs.
func FuzzConn(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":[],"error":null}{"method":"echo","params":[],"id":"x"}`))
	f.Add([]byte(`{"method":"update2","params":["rows",{}],"id":null}{"method":"lock","params":[]}`))
	f.Add([]byte(`{"id":1,"error":{"error":"unknown database"},"result":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		c := newConn(ours, func(_ string, raw json.RawMessage) error { _, err := parseUpdates(raw); return err })
		reading := make(chan struct{})
		go func() { defer close(reading); c.read() }()
		called := make(chan error, 1)
		go func() { _, err := c.call(t.Context(), "get_schema", []any{"X"}, nil); called <- err }()
		swallowed := make(chan struct{})
		go func() {
			defer close(swallowed)
			buffer := make([]byte, 4096)
			for {
				if _, err := theirs.Read(buffer); err != nil {
					return
				}
			}
		}()
		_ = theirs.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, _ = theirs.Write(data)
		_ = theirs.Close()
		<-reading
		<-called
		<-swallowed
		if c.why() == nil {
			t.Error("the connection has not ended")
		}
	})
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add("tcp:[::1]:6641")
	f.Add("unix:/x")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseEndpoint(text)
		if err != nil {
			return
		}
		if again, err := ParseEndpoint(e.String()); err != nil || again != e {
			t.Errorf("%q is %v, and read again %v, %v", text, e, again, err)
		}
	})
}
