package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A server that is killed leaves half an event; the next one follows.
func TestAuditLogWithHalfEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	line := `{"kind":"Event","verb":"patch","user":{"username":"u"},"userAgent":"x/1","objectRef":{"resource":"services","subresource":"status","namespace":"a","name":"b"},"responseStatus":{"code":200}}` + "\n"
	if err := os.WriteFile(path, []byte(line+line[:40]+line+line[:50]+"\n"+line[:60]), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Write]int{{"patch", "services", "status", "a", "b", "x/1", 200, "u"}: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
