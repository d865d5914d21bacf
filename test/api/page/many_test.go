package page

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	livepage "fairlead.io/internal/page"
	"fairlead.io/internal/snapshot"
	"fairlead.io/test/kit/browser"
)

// many Services; an agent lists at most perNode addresses.
const many, perNode = 10_000, 500

// crowd is a cluster in memory: writing so many Services takes an API server minutes, and
// is not what is looked at here.
type crowd struct {
	t        *testing.T
	objects  []client.Object
	agents   []*v1alpha1.Agent
	snapshot chan *snapshot.Snapshot
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{t: t, snapshot: make(chan *snapshot.Snapshot, 1)}
	c.objects = append(c.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"10.32.0.0/18"}}})
	for i := range many / perNode {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%02d", i+1)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		a.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
		c.objects, c.agents = append(c.objects, n), append(c.agents, a)
	}
	address := netip.MustParseAddr("10.32.0.0")
	for i := range many {
		s := service(fmt.Sprintf("shop/web-%05d", i), nil)
		s.UID, s.Spec.IPFamilies = types.UID(s.Name), []corev1.IPFamily{corev1.IPv4Protocol}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address.String()}}
		c.objects = append(c.objects, s)
		c.announce(i%len(c.agents), address.String(), "shop/"+s.Name)
		address = address.Next()
	}
	return c
}

// announce has a node announce an address.
func (c *crowd) announce(node int, address, service string) {
	a := c.agents[node].DeepCopy()
	a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: address, Services: []string{service}, Interface: "eth0", Protocol: "ARP", Since: metav1.Now()})
	a.Status.Announced = int32(len(a.Status.Addresses))
	c.agents[node] = a
}

// show shows the cluster as it is now.
func (c *crowd) show() {
	c.t.Helper()
	all := c.objects
	for _, a := range c.agents {
		all = append(all, a)
	}
	s, err := snapshot.Of(time.Now(), config.Default(), all...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.snapshot <- s
}

// Run is the source of the page.
func (c *crowd) Run(ctx context.Context, tell func(*snapshot.Snapshot, snapshot.Contact)) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-c.snapshot:
			tell(s, snapshot.Contact{At: time.Now()})
		}
	}
}

// smooth scrolls through a list as a person does with a wheel, and returns how many frames
// there were and how long the longest took.
const smooth = `new Promise(done => {
  const box = document.querySelector('#matrix .rows'), step = box.scrollHeight / 120;
  let last = 0, frames = 0, longest = 0;
  const next = now => {
    if (last) longest = Math.max(longest, now - last);
    last = now;
    if (++frames > 120) return done({frames, longest, rows: document.querySelectorAll('.row').length, end: box.scrollTop + box.clientHeight >= box.scrollHeight - 1});
    box.scrollTop += step;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})`

// With ten thousand Services there is as much on the page as one sees.
func TestTenThousandServices(t *testing.T) {
	c := newCrowd(t)
	p := livepage.New("crowd", c)
	srv := httptest.NewUnstartedServer(nil)
	only, err := livepage.NewLoopback(p, srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = only
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		p.Close()
	})
	c.show()
	tab := browser.Start(t).Open(only.URL(), 1440, 900)
	tab.Until("the page is painted", `document.body.dataset.painted && document.querySelector('#matrix .count').textContent === '10,000'`)
	var painted float64
	if err := tab.Eval(`Number(document.body.dataset.painted)`, &painted); err != nil {
		t.Fatal(err)
	}
	tab.Until("agents are known", browser.On("10.32.0.0", "worker-01"))
	tab.Picture("page-many")
	c.agents[0] = c.agents[0].DeepCopy()
	c.agents[0].Status.Addresses = c.agents[0].Status.Addresses[1:]
	c.agents[0].Status.Announced--
	c.announce(7, "10.32.0.0", "shop/web-00000")
	c.show()
	tab.Until("the move is shown", browser.On("10.32.0.0", "worker-08"))
	var scrolled struct {
		Frames, Rows int
		Longest      float64
		End          bool
	}
	if err := tab.Eval(smooth, &scrolled); err != nil {
		t.Fatal(err)
	}
	t.Logf("painted after %.0f ms; scrolled: %+v", painted, scrolled)
	if scrolled.Rows > 200 || !scrolled.End {
		t.Errorf("the page has %d rows; scrolled to the end: %t", scrolled.Rows, scrolled.End)
	}
	// Search
	tab.Key("/")
	for _, c := range "web-09999" {
		tab.Key(string(c))
	}
	tab.Until("it is found", `document.querySelector('#matrix .count').textContent === '1 of 10,000'`)
	tab.Key("Enter")
	tab.Until("why is answered", `document.querySelector('#why .step.failed')`) // no pod serves
	onlyOwnOrigin(t, tab, only.URL())
}
