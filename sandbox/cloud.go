package sandbox

import (
	"context"
	"crypto/rand"
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

	"fairlead.io/sandbox/simulator"
)

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
	seed, err := clouds[c.Cloud].Seed(c.site())
	if err != nil {
		return fmt.Errorf("encode the cloud's servers: %w", err)
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
	argv := append([]string{c.path("bin", "sandbox"), c.Cloud, "--inherit",
		"--listen=" + cloudAddress().String(), "--token-file=" + c.cloudToken(), "--seed=" + c.path("cloud", "seed.json"),
	}, clouds[c.Cloud].Argv(c.site())...)
	argv = append(argv, c.CloudFlags...)
	log := c.path("cloud", c.Cloud+".log")
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
	return c.find(CloudHost, func(p process) bool { return slices.Contains(p.args, c.Cloud) })
}

// cloudAddress is where the cloud's API is on the LAN.
func cloudAddress() netip.AddrPort {
	return netip.AddrPortFrom(cloudHost.addresses()[0].Addr(), cloudPort)
}

// site is what a cloud has to know of the cluster in it: one server for every
// node, with its name and its addresses.
func (c *Cluster) site() simulator.Site {
	s := simulator.Site{
		Cluster: c.Name, API: cloudAddress(), Card: "eth0", Switch: c.netns(SwitchHost),
		Public: cloudPublic, Floating: cloudFloating, Reserved: cloudReserved,
	}
	for i, a := range cloudHost.addresses() {
		s.LAN = append(s.LAN, simulator.Subnet{CIDR: a.Masked(), Gateway: controlHost.addresses()[i].Addr()})
	}
	for _, n := range c.nodes() {
		s.Nodes = append(s.Nodes, simulator.Node{Name: n.name, Private: without(n.addresses()), Public: without(n.publicAddresses())})
	}
	return s
}

// without returns addresses without their prefix lengths.
func without(prefixes []netip.Prefix) []netip.Addr {
	var all []netip.Addr
	for _, p := range prefixes {
		all = append(all, p.Addr())
	}
	return all
}

// CloudURL is where programs on this machine reach the cloud's API.
func (c *Cluster) CloudURL() (string, error) {
	_, url, err := c.openCloud()
	return url, err
}

// openCloud returns the cloud of a cluster that is up, and where it is reached.
func (c *Cluster) openCloud() (simulator.Cloud, string, error) {
	if err := c.complete(); err != nil {
		return nil, "", err
	}
	s, err := c.readState()
	if err == nil && clouds[s.Cloud] == nil {
		err = errors.New("it has no cloud")
	}
	if err != nil {
		return nil, "", fmt.Errorf("find the cloud of the sandbox %s: %w", c.Name, err)
	}
	return clouds[s.Cloud], fmt.Sprintf("http://127.0.0.1:%d", s.CloudPort), nil
}

// CloudRequest sends a request to the cloud's API and returns the answer's
// body. An unsuccessful answer is an error.
func (c *Cluster) CloudRequest(ctx context.Context, method, path, body string) ([]byte, error) {
	cloud, url, err := c.openCloud()
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
	cloud.Authorize(r, strings.TrimSpace(string(token)))
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

// power starts or stops the server that a node is, if it is one.
func (c *Cluster) power(ctx context.Context, n host, on bool) error {
	if c.Cloud == "" {
		return nil
	}
	return clouds[c.Cloud].Power(ctx, c.CloudRequest, n.name, on)
}

// reportLeftBehind lists what the cluster leaves behind: in a real cloud it would
// go on to cost money.
func (c *Cluster) reportLeftBehind(ctx context.Context, cloud simulator.Cloud) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	what, left, err := cloud.LeftBehind(ctx, c.CloudRequest)
	switch {
	case err != nil: // it does not run any more, and has forgotten everything
	case len(left) == 0:
		fmt.Fprintf(c.Progress, "no %s are left behind in the cloud\n", what)
	default:
		fmt.Fprintf(c.Progress, "%d %s are left behind in the cloud; delete their Services first to have them removed:\n", len(left), what)
		for _, line := range left {
			fmt.Fprintf(c.Progress, "  %s\n", line)
		}
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
