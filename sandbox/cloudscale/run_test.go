package cloudscale_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/sandbox/simulator"
)

func TestProcess(t *testing.T) {
	dir := t.TempDir()
	tokenFile, seedFile := filepath.Join(dir, "token"), filepath.Join(dir, "seed")
	if err := os.WriteFile(tokenFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(seedFile, []byte(`{"servers": [{"name": "other"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, withToken := range []bool{false, true} {
		p := cloudscale.Process{
			Process: simulator.Process{Listen: "127.0.0.1:0", SeedFile: seedFile}, Forward: true,
			Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")},
			Nodes:   []string{"node1=10.0.0.11,fd00::11"},
		}
		token := "secret"
		if withToken {
			p.TokenFile = tokenFile
		}
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		ended := make(chan error)
		go func() { ended <- p.Run(ctx, writer); writer.Close() }()
		line, err := bufio.NewReader(reader).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		said := regexp.MustCompile(`^export CLOUDSCALE_API_URL=(\S+) CLOUDSCALE_ACCESS_TOKEN=(.+)\n`).FindStringSubmatch(line)
		if said == nil {
			t.Fatalf("it says %q", line)
		}
		switch {
		case !withToken:
			token = said[2]
		case said[2] != "$(cat "+tokenFile+")":
			t.Errorf("it says %q", line)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, said[1]+"/v1/servers", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var servers []object
		if err := json.NewDecoder(response.Body).Decode(&servers); err != nil || len(servers) != 2 || servers[1]["name"] != "node1" {
			t.Errorf("servers: %v, %v", servers, err)
		}
		response.Body.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestProcessThatCannotBe(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	subnets := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	for _, test := range []struct {
		process cloudscale.Process
		want    string
	}{
		{cloudscale.Process{Process: simulator.Process{TokenFile: empty}}, "is empty"},
		{cloudscale.Process{Process: simulator.Process{TokenFile: empty + "x"}}, "read token"},
		{cloudscale.Process{Process: simulator.Process{SeedFile: empty}}, "read seed"},
		{cloudscale.Process{Nodes: []string{"a=10.0.0.1"}}, "need a subnet"},
		{cloudscale.Process{Nodes: []string{"a"}, Subnets: subnets}, "want NAME=ADDRESS"},
		{cloudscale.Process{Nodes: []string{"a=b"}, Subnets: subnets}, "node \"a=b\""},
		{cloudscale.Process{Forward: true, Card: "no-such-card"}, "find network card"},
		{cloudscale.Process{Process: simulator.Process{Listen: "256.0.0.1:1"}}, "listen for clients"},
	} {
		if err := test.process.Run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.process, err, test.want)
		}
	}
}
