package cloudsigma_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/sandbox/simulator"
)

func TestProcess(t *testing.T) {
	dir := t.TempDir()
	seedFile := filepath.Join(dir, "seed")
	if err := os.WriteFile(seedFile, []byte(`{"subscribed":["192.0.2.7"],"servers":[{"name":"other","nics":[{"ip_v4":"203.0.113.9"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := cloudsigma.Process{
		Process: simulator.Process{Listen: "127.0.0.1:0", SeedFile: seedFile}, NICs: "manual",
		Nodes: []string{"node1=203.0.113.8", "node2=manual", "node3=dhcp"}, Subscribed: []string{"192.0.2.8"},
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, writer); writer.Close() }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	said := regexp.MustCompile(`^export CLOUDSIGMA_API_ENDPOINT=(\S+) CLOUDSIGMA_REGION=zrh CLOUDSIGMA_TOKEN=(\S+)\n`).FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("it says %q", line)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, said[1]+"/servers/detail/?limit=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+said[2])
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	for _, want := range []string{`"total_count":4`, `"node1"`, `"203.0.113.8"`, `"conf":"manual"`} {
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s is not in %s, %v", want, body, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	p.Enforce = func(context.Context, *cloudsigma.Simulator) error { return broken }
	if err := p.Run(t.Context(), io.Discard); !errors.Is(err, broken) {
		t.Errorf("a firewall that cannot be enforced: %v", err)
	}
	for _, change := range []func(*cloudsigma.Process){
		func(p *cloudsigma.Process) { p.Nodes = []string{"node1"} },
		func(p *cloudsigma.Process) { p.Nodes = []string{"node1=maybe"} },
		func(p *cloudsigma.Process) { p.Subscribed = []string{"x"} },
		func(p *cloudsigma.Process) { p.Knobs.Running = "maybe" },
		func(p *cloudsigma.Process) { p.SeedFile = dir },
	} {
		bad := p
		change(&bad)
		if err := bad.Run(t.Context(), io.Discard); err == nil || errors.Is(err, broken) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
