package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// Cloudscale is the cloud that [Cluster.Cloud] can name: a simulator of
// cloudscale.ch, see the package of that name.
const Cloudscale = "cloudscale"

// CloudHost is the host that a cloud runs on, if there is one: its API, and
// what forwards packets for its load balancers.
const CloudHost = "cloud"

var cloudHost = host{CloudHost, 2}

// cloudPort is that of the cloud's API on the LAN.
const cloudPort = 8080

// Addresses that are the cloud's: those of servers and load balancers, and
// floating IPs. Everybody on the LAN has routes to them.
var (
	cloudPublic   = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/64")}
	cloudFloating = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:f::/48")}
	// cloudReserved are addresses of the LAN that hosts have or may get.
	cloudReserved = []netip.Prefix{netip.MustParsePrefix("10.77.0.0/25"), netip.MustParsePrefix("fd77::/118")}
)

// publicAddresses are those of a node whose cloud gives it some.
func (h host) publicAddresses() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("203.0.113.%d/32", h.index)),
		netip.MustParsePrefix(fmt.Sprintf("2001:db8:1::%d/128", h.index)),
	}
}

// startCloud starts the cloud unless it runs, and returns when it answers. It
// keeps everything in memory.
func (c *Cluster) startCloud(ctx context.Context, port uint16) error {
	pid, err := c.cloudPID()
	if err != nil || pid != 0 {
		return err
	}
	if err := os.MkdirAll(c.path("cloud"), 0o755); err != nil {
		return fmt.Errorf("make directory of the cloud: %w", err)
	}
	if _, err := os.Stat(c.cloudToken()); errors.Is(err, fs.ErrNotExist) {
		if err := replaceFile(c.cloudToken(), []byte(rand.Text()), 0o600); err != nil {
			return fmt.Errorf("write the cloud's token: %w", err)
		}
	}
	seed, err := c.cloudSeed()
	if err != nil {
		return err
	}
	if err := replaceFile(c.path("cloud", "seed.json"), seed, 0o644); err != nil {
		return fmt.Errorf("write the cloud's servers: %w", err)
	}
	// The machine has no route to the LAN, but a port that leads to the cloud.
	file, err := listenOnMachine(port)
	if err != nil {
		return err
	}
	defer file.Close()
	argv := []string{c.path("bin", "sandbox"), Cloudscale, "--inherit",
		"--listen=" + cloudAddress().String(), "--token-file=" + c.cloudToken(), "--seed=" + c.path("cloud", "seed.json"),
		"--forward", "--card=eth0"}
	for _, given := range []struct {
		flag     string
		prefixes []netip.Prefix
	}{{"--public=", cloudPublic}, {"--floating=", cloudFloating}, {"--reserved=", cloudReserved}} {
		for _, p := range given.prefixes {
			argv = append(argv, given.flag+p.String())
		}
	}
	log := c.path("cloud", Cloudscale+".log")
	ended, err := detached{netns: c.netns(CloudHost), log: log, argv: argv, files: []*os.File{file}}.start()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := c.Dial(ctx, CloudHost, "tcp", cloudAddress().String())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return fmt.Errorf("start the cloud: it ended; %s", logTail(log))
		default:
		}
		if pause(ctx) != nil {
			return fmt.Errorf("start the cloud: %w; %s", err, logTail(log))
		}
	}
}

func (c *Cluster) cloudToken() string { return c.path("cloud", "token") }

func (c *Cluster) cloudPID() (int, error) {
	return c.find(CloudHost, func(p process) bool { return slices.Contains(p.args, Cloudscale) })
}

// cloudAddress is where the cloud's API is on the LAN.
func cloudAddress() netip.AddrPort {
	return netip.AddrPortFrom(cloudHost.addresses()[0].Addr(), cloudPort)
}

// cloudSeed is the network and the servers of the cloud: one for every node,
// with its name and its addresses.
func (c *Cluster) cloudSeed() ([]byte, error) {
	type object = map[string]any
	network := newUUID()
	subnets, ids := []object{}, []string{}
	for _, a := range cloudHost.addresses() {
		ids = append(ids, newUUID())
		subnets = append(subnets, object{"uuid": ids[len(ids)-1], "network": network, "cidr": a.Masked(), "gateway_address": controlHost.addresses()[len(ids)-1].Addr()})
	}
	servers := []object{}
	for _, n := range c.nodes() {
		private, public := []object{}, []object{}
		for i, a := range n.addresses() {
			private = append(private, object{"address": a.Addr(), "subnet": ids[i]})
		}
		for _, a := range n.publicAddresses() {
			public = append(public, object{"address": a.Addr()})
		}
		servers = append(servers, object{"name": n.name, "zone": "lpg1", "interfaces": []object{{"addresses": public}, {"network": network, "addresses": private}}})
	}
	raw, err := json.MarshalIndent(object{
		"networks": []object{{"uuid": network, "name": c.Name, "zone": "lpg1"}}, "subnets": subnets, "servers": servers,
	}, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("encode the cloud's servers: %w", err)
	}
	return raw, nil
}

// CloudURL is where programs on this machine reach the cloud's API.
func (c *Cluster) CloudURL() (string, error) {
	if err := c.complete(); err != nil {
		return "", err
	}
	s, err := c.readState()
	if err == nil && s.Cloud == "" {
		err = errors.New("it is in no cloud")
	}
	if err != nil {
		return "", fmt.Errorf("find the cloud of the sandbox %s: %w", c.Name, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", s.CloudPort), nil
}

// CloudRequest sends a request to the cloud's API and returns the answer's
// body. An answer that is no success is an error.
func (c *Cluster) CloudRequest(ctx context.Context, method, path, body string) ([]byte, error) {
	url, err := c.CloudURL()
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(c.cloudToken())
	if err != nil {
		return nil, fmt.Errorf("read the cloud's token: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the cloud: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the cloud: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the cloud: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return answer, fmt.Errorf("ask the cloud for %s %s: %s: %s", method, path, response.Status, strings.TrimSpace(string(answer)))
	}
	return answer, nil
}

// tellCloud starts or stops the server that a node is, if it is one.
func (c *Cluster) tellCloud(ctx context.Context, n host, action string) error {
	if c.Cloud == "" {
		return nil
	}
	answer, err := c.CloudRequest(ctx, http.MethodGet, "/v1/servers", "")
	if err != nil {
		return err
	}
	var servers []struct {
		Name string `json:"name"`
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(answer, &servers); err != nil {
		return fmt.Errorf("list the cloud's servers: %w", err)
	}
	for _, s := range servers {
		if s.Name != n.name {
			continue
		}
		if _, err := c.CloudRequest(ctx, http.MethodPost, "/v1/servers/"+s.UUID+"/"+action, ""); err != nil {
			return err
		}
	}
	return nil
}

// tellLeftBehind lists load balancers that the cluster leaves behind: in a
// real cloud they would go on to cost money.
func (c *Cluster) tellLeftBehind(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	answer, err := c.CloudRequest(ctx, http.MethodGet, "/v1/load-balancers", "")
	if err != nil {
		return // it does not run any more, and has forgotten everything
	}
	var left []struct {
		Name string `json:"name"`
		UUID string `json:"uuid"`
		VIPs []struct {
			Address string `json:"address"`
		} `json:"vip_addresses"`
	}
	if err := json.Unmarshal(answer, &left); err != nil {
		fmt.Fprintf(c.Progress, "the cloud's load balancers cannot be listed: %v\n", err)
		return
	}
	if len(left) == 0 {
		fmt.Fprintln(c.Progress, "no load balancers are left behind in the cloud")
		return
	}
	fmt.Fprintf(c.Progress, "%d load balancers are left behind in the cloud; delete their Services first to have them removed:\n", len(left))
	for _, lb := range left {
		var vips []string
		for _, v := range lb.VIPs {
			vips = append(vips, v.Address)
		}
		fmt.Fprintf(c.Progress, "  %s %s %s\n", lb.UUID, lb.Name, strings.Join(vips, " "))
	}
}

// listenOnMachine listens at a port of the machine for a process that runs in
// a namespace of the cluster.
func listenOnMachine(port uint16) (*os.File, error) {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)))
	if err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", port, err)
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return nil, fmt.Errorf("pass the listener on: %w", err)
	}
	return file, nil
}
