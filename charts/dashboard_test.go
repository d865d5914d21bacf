package charts_test

import (
	"fmt"
	"testing"
)

// dashboard is what a test needs of Grafana's format.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []struct{ Name string } }
	Panels        []struct {
		ID          int
		Type, Title string
		Datasource  struct{ UID string }
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			RefID, Expr string
			Datasource  struct{ UID string }
		}
	}
}

// The dashboard asks for metrics that exist, of the data source that the reader chooses,
// and its panels do not overlap.
func TestDashboard(t *testing.T) {
	var d dashboard
	read(t, "fairlead/files/dashboard.json", &d)
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 || fmt.Sprint(d.Templating.List) != "[{datasource} {cluster}]" {
		t.Fatalf("not a dashboard: %+v", d)
	}
	metrics := knownMetrics(t)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W*p.GridPos.H == 0 {
			t.Errorf("panel %d %q: no title, the ID of another panel, or outside the page", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("panel %q overlaps %q", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q asks for nothing, or another data source: %q", p.Title, p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if target.RefID == "" || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q: %+v", p.Title, target)
			}
			metrics.check(t, "panel "+p.Title, target.Expr, "cluster", "node", "instance", "job")
		}
	}
}
