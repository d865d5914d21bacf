package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/sandbox"
)

var allNodes = []string{"node1", "node2", "node3"}

// examples are those of the document, word for word.
const examples = `
apiVersion: v1
kind: Service
metadata:
  name: nginx-lb
spec:
  type: LoadBalancer
  selector:
    app: nginx
  ports:
  - port: 80
    targetPort: 80
---
apiVersion: v1
kind: Service
metadata:
  name: nginx-lb-dynamic
  annotations:
    cloudsigma.com/ip-pool: "dynamic"
spec:
  type: LoadBalancer
  selector:
    app: nginx
  ports:
  - port: 80
    targetPort: 80
`

// lifted are Services that the document's limitations exclude: UDP, several ports,
// another targetPort, and the client's address.
const lifted = `
apiVersion: v1
kind: Service
metadata:
  name: several
spec:
  type: LoadBalancer
  selector:
    app: nginx
  ports:
  - {name: web, port: 8081, targetPort: 80}
  - {name: second, port: 9000, targetPort: 80}
  - {name: dns, port: 5353, targetPort: 80, protocol: UDP}
---
apiVersion: v1
kind: Service
metadata:
  name: local
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector:
    app: nginx
  ports:
  - port: 80
`

// The document, with kube-proxy in both of its modes.
func TestDocument(t *testing.T) {
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) { document(t, mode) })
	}
}

// document goes from the document's first example to its last command, to what its
// limitations excluded, and to the death of the node that has an address.
func document(t *testing.T, mode string) {
	c := start(t, mode, "--unowned=accept")
	const dynamic = "203.0.113.77"
	c.cloud(http.MethodPost, "/sandbox/dynamic", map[string]string{"address": dynamic}, nil)
	c.apply(examples)
	address := c.address("nginx-lb")
	c.answers("tcp", address, 80)
	node := c.placed(address)
	if want := []string{"cluster:metal", "managed-by:cloudsigma-ccm", "service:default-nginx-lb"}; !cmp.Equal(c.tagged(address), want) {
		t.Errorf("tags of %s: %q, want %q", address, c.tagged(address), want)
	}
	for _, word := range []string{"Assigned", "Attached"} {
		if !slices.ContainsFunc(strings.Split(c.logs(), "\n"), func(line string) bool {
			return strings.Contains(line, word) && strings.Contains(line, address) && strings.Contains(line, "default/nginx-lb") && strings.Contains(line, node)
		}) {
			t.Errorf("the log does not say %s with address, Service and node:\n%s", word, c.logs())
		}
	}
	if agents := c.kubectl("get", "pods", "--namespace=kube-system", "--selector=app=cloudsigma-lb-ip", "--output=name"); strings.Count(agents, "\n") != len(allNodes) {
		t.Errorf("pods with the document's label:\n%s", agents)
	}
	for _, n := range allNodes {
		if out := c.kubectl("get", "node", n, "--output=jsonpath={.status.addresses}"); strings.Contains(out, address) {
			t.Errorf("node %s has the Service's address among its own: %s", n, out)
		}
	}

	if got := c.address("nginx-lb-dynamic"); got != dynamic {
		t.Errorf("the Service of the pool dynamic has %s", got)
	}
	c.answers("tcp", dynamic, 80)
	c.eventually("a warning about the dynamic address", time.Minute, func(context.Context) error {
		if out := c.kubectl("get", "events", "--field-selector=involvedObject.name=nginx-lb-dynamic,reason=DynamicAddress"); !strings.Contains(out, "Warning") {
			return errors.New(out)
		}
		return nil
	})

	c.apply(lifted)
	several, local := c.address("several"), c.address("local")
	c.answers("tcp", several, 8081)
	c.answers("tcp", several, 9000)
	c.answers("udp", several, 5353)
	if got := c.answers("tcp", local, 80); !strings.Contains(got, "answers "+clientAddress+":") || !strings.Contains(got, "on "+c.placed(local)+" ") {
		t.Errorf("the pod behind policy Local is not on node %s, or does not see the client: %s", c.placed(local), got)
	}
	c.halves()

	if err := c.Kill(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	c.answersFrom(address, node)
	if now := c.placed(address); now == node {
		t.Errorf("%s is still at %s, which is dead", address, node)
	}
	if err := c.Restart(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	c.kubectl("wait", "node/"+node, "--for=condition=Ready", "--timeout=2m")
	c.answers("tcp", address, 80)
	if now := c.placed(address); now == node {
		t.Errorf("%s went back to %s", address, node)
	}

	c.kubectl("delete", "service", "nginx-lb", "nginx-lb-dynamic", "several", "local", "--timeout=1m")
	for _, gone := range []string{address, dynamic, several, local} {
		if nodes, tags := c.attached(gone), c.tagged(gone); len(nodes)+len(tags) > 0 {
			t.Errorf("%s is left behind: attached to %q, tagged %q", gone, nodes, tags)
		}
	}
	c.rightsSuffice()
}

// With NICs in mode manual, agents move an address themselves: no call, no NIC.
func TestManual(t *testing.T) {
	c := start(t, "nftables", "--nics=manual")
	c.apply(strings.Split(examples, "---")[0])
	address := c.address("nginx-lb")
	c.answers("tcp", address, 80)
	carry := c.carriers(t.Context(), address, allNodes...)
	if nodes := c.attached(address); len(nodes) > 0 || len(carry) != 1 {
		t.Fatalf("%s is attached to %q and carried by %q", address, nodes, carry)
	}
	if err := c.Kill(t.Context(), carry[0]); err != nil {
		t.Fatal(err)
	}
	c.answersFrom(address, carry[0])
	if nodes := c.attached(address); len(nodes) > 0 {
		t.Errorf("%s was attached to %q", address, nodes)
	}
}

// placed is the one node that an address is attached to, and that carries it.
func (c *cluster) placed(address string) (node string) {
	c.t.Helper()
	c.eventually(address+" is attached to the one node that carries it", time.Minute, func(ctx context.Context) error {
		attached, carry := c.attached(address), c.carriers(ctx, address, allNodes...)
		if len(attached) != 1 || !slices.Equal(attached, carry) {
			return fmt.Errorf("attached to %q, carried by %q", attached, carry)
		}
		node = attached[0]
		return nil
	})
	return node
}

// answers waits until the client host gets an answer, and returns it.
func (c *cluster) answers(network, address string, port int) (answer string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%s answers on port %d/%s", address, port, network), time.Minute, func(ctx context.Context) (err error) {
		answer, err = c.ask(ctx, network, fmt.Sprintf("%s:%d", address, port))
		return err
	})
	return answer
}

// answersFrom waits until a hundred requests in a row are answered, by no pod on the
// dead node.
func (c *cluster) answersFrom(address, dead string) {
	c.t.Helper()
	c.eventually(address+" answers without "+dead, 2*time.Minute, func(ctx context.Context) error {
		for range 100 {
			got, err := c.ask(ctx, "tcp", address+":80")
			if err != nil {
				return err
			}
			if strings.Contains(got, "on "+dead+" ") {
				return fmt.Errorf("a dead node answers: %s", got)
			}
		}
		return nil
	})
}

// ask sends one request from the client host, over HTTP or UDP.
func (c *cluster) ask(ctx context.Context, network, to string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := c.Dial(ctx, sandbox.ClientHost, network, to)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	question := "GET / HTTP/1.0\r\n\r\n"
	if _, err := conn.Write([]byte(question)); err != nil {
		return "", err
	}
	var answer strings.Builder
	buffer := make([]byte, 2048)
	for !strings.Contains(answer.String(), " answers ") {
		n, err := conn.Read(buffer)
		answer.Write(buffer[:n])
		if err != nil && n == 0 {
			return "", fmt.Errorf("%w after %q", err, &answer)
		}
	}
	return answer.String(), nil
}

// reached says whether a host has the address: it refuses a connection to a port on
// which nobody listens, or there is no answer at all.
func (c *cluster) reached(address string) bool {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Second)
	defer cancel()
	conn, err := c.Dial(ctx, sandbox.ClientHost, "tcp", net.JoinHostPort(address, "7"))
	if err == nil {
		_ = conn.Close()
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// halves shows that an address needs both halves, the NIC and the interface: of two
// addresses with one each, none is reached, and the one that gets the other is.
func (c *cluster) halves() {
	c.t.Helper()
	const attached, carried, node = "192.0.2.28", "192.0.2.29", "node1"
	put := func(address string) {
		c.t.Helper()
		if out, err := c.Exec(c.t.Context(), node, "ip", "addr", "add", address+"/32", "dev", "eth0"); err != nil {
			c.t.Fatal(err, string(out))
		}
	}
	detach := c.attach(attached, node)
	put(carried)
	if c.reached(attached) {
		c.t.Errorf("%s is reached, though no interface of %s has it", attached, node)
	}
	if c.reached(carried) {
		c.t.Errorf("%s is reached, though no NIC of %s has it", carried, node)
	}
	put(attached)
	c.eventually("an address with both halves is reached", time.Minute, func(context.Context) error {
		if !c.reached(attached) {
			return errors.New("it is not")
		}
		return nil
	})
	for _, address := range []string{attached, carried} {
		if out, err := c.Exec(c.t.Context(), node, "ip", "addr", "del", address+"/32", "dev", "eth0"); err != nil {
			c.t.Fatal(err, string(out))
		}
	}
	detach()
}
