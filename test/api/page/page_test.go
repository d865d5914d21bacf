package page

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/browser"
)

var shops = []string{"web", "api", "checkout", "images", "search", "cart", "mqtt", "ftp", "dns", "ldap", "vpn", "git", "registry", "grafana"}

// furnish fills the world with what a small company has.
func furnish(w *world) map[string]string {
	w.pool("edge", func(p *v1alpha1.Pool) {
		p.Spec.Exclude = []v1alpha1.Span{"192.0.2.32-192.0.2.39"}
		p.Spec.Reservations = []v1alpha1.Reservation{{Address: "192.0.2.60", Namespace: "mail", Name: "relay"}}
	}, "192.0.2.0/26")
	w.pool("office", nil, "198.51.100.8/29", "2001:db8:7::/64")
	w.pool("lab", func(p *v1alpha1.Pool) { p.Spec.QuotaPerNamespace = 1 }, "203.0.113.0/30")
	has := map[string]string{}
	for _, name := range shops {
		w.service("shop/"+name, map[string]string{"fairlead.io/pool": "edge"})
	}
	for _, name := range []string{"smtp", "imap", "lists"} {
		w.service("mail/"+name, map[string]string{"fairlead.io/pool": "office"})
	}
	w.service("shop/lab-one", map[string]string{"fairlead.io/pool": "lab"})
	for _, key := range []string{"mail/smtp", "mail/imap", "mail/lists", "shop/lab-one"} {
		has[key] = w.address(key)
	}
	for _, name := range shops {
		has["shop/"+name] = w.address("shop/" + name)
	}
	i := 0
	for _, key := range sortedKeys(has) {
		w.announce(w.nodes[i%len(w.nodes)], has[key], key, time.Duration(1+i*i)*7*time.Minute)
		i++
	}
	for _, node := range w.nodes {
		w.report(node, nil)
	}
	// What waits, each for a reason of its own.
	w.service("shop/lab-two", map[string]string{"fairlead.io/pool": "lab"})
	w.service("shop/typo", map[string]string{"fairlead.io/pool": "egde"})
	w.service("shop/elsewhere", map[string]string{"fairlead.io/addresses": "192.0.2.35"})
	return has
}

func sortedKeys(m map[string]string) (out []string) {
	for key := range m {
		out = append(out, key)
	}
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// The page shows what there is, and follows it.
func TestPage(t *testing.T) {
	w := newWorld(t, "worker-1", "worker-2", "worker-3", "worker-4")
	has := furnish(w)
	web := has["shop/web"]
	// What happened before the page was opened.
	e := kubeapi.Event{About: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "api"}, Reason: string(lb.Moved), Component: "fairlead-agent", Node: "worker-2",
		Message: lb.Moved.With(has["shop/api"], "worker-4", "worker-1", "node worker-4 is being drained", "").Text, At: time.Now().Add(-23 * time.Minute)}
	create(t, e.Object())
	// A tenant cannot write the history of others.
	forged := kubeapi.Event{About: corev1.ObjectReference{Kind: "Service", Namespace: "mail", Name: "smtp"}, Reason: string(lb.Moved), Component: "fairlead-agent", Node: "worker-2",
		Message: lb.Moved.With(web, "worker-4", "forged", "a tenant says so", "").Text, At: time.Now().Add(-time.Minute)}
	create(t, forged.Object())

	page := browser.UI(t, theRig.API.Kubeconfig)
	tab := browser.Start(t).Open(page, 1440, 900)
	tab.Until("the page is painted", browser.Live)
	tab.Until("the matrix has all addresses", fmt.Sprintf(`document.querySelector('#matrix .count').textContent === '%d'`, len(has)))
	var painted float64
	if err := tab.Eval(`Number(document.body.dataset.painted)`, &painted); err != nil {
		t.Fatal(err)
	}
	t.Logf("painted %.0f ms after its script began", painted)
	if got := tab.Text("#verdict"); !strings.Contains(got, "18 Services reachable") && !strings.Contains(got, "18\nServices reachable") {
		t.Errorf("the head says %q", got)
	}
	tab.Until("the move before", `document.querySelector('#timeline .moved')?.innerText.includes('worker-4→worker-1')`)
	if got := tab.Text("#timeline"); strings.Contains(got, "forged") || !strings.Contains(got, "Node worker-4 is being drained.") {
		t.Errorf("the timeline says %q", got)
	}
	for _, want := range []string{"shop/lab-two\nQuotaExceeded", "shop/typo\nUnknownPool", "shop/elsewhere\nAddressNotInPool"} {
		if got := tab.Text("#attention"); !strings.Contains(strings.ReplaceAll(got, "\u00a0", " "), want) {
			t.Errorf("%q is missing in what waits: %q", want, got)
		}
	}
	tab.Picture("page-light")
	tab.Dark(true)
	tab.Until("it is dark", `getComputedStyle(document.body).backgroundColor === 'rgb(16, 21, 27)'`)
	tab.Picture("page-dark")
	tab.Dark(false)

	// An address moves.
	from := tab.Text(browser.Row(web))
	began := time.Now()
	w.move("worker-4", web, "shop/web")
	tab.Until("the address is on its new node", browser.On(web, "worker-4"))
	t.Logf("a move was shown %s after it was written (was %q)", time.Since(began).Round(time.Millisecond), from)
	tab.Until("the timeline has the move", fmt.Sprintf(`document.querySelector('#timeline .row')?.innerText.includes('%s')`, web))
	tab.Picture("page-moved")

	// Why, by keys.
	tab.Key("/")
	for _, c := range "shop/web" {
		tab.Key(string(c))
	}
	tab.Until("one address is left", `document.querySelector('#matrix .count').textContent.startsWith('1 of')`)
	tab.Key("Enter")
	tab.Until("why is open", `document.querySelectorAll('#why .step.passed').length >= 5`)
	if got := tab.Text("#why"); !strings.Contains(got, web+" by node worker-4 on eth0") || !strings.Contains(got, "moved from") {
		t.Errorf("why says %q", got)
	}
	tab.Key("Escape")
	tab.Key("Escape")
	tab.Until("why is closed", `document.querySelector('#why').hidden`)
	tab.Key("/")
	tab.Key("Escape")
	tab.Until("nothing is left out", `document.querySelectorAll('#attention .row').length === 3`)
	tab.Click(`#attention .row`)
	tab.Until("why of what waits", `document.querySelector('#why .step.failed') && document.querySelector('#why').getAnimations().length === 0`)
	tab.Picture("page-why")
	tab.Key("Escape")
	onlyOwnOrigin(t, tab, page)
}

// onlyOwnOrigin checks that the browser has asked nobody else, and that nothing went wrong.
func onlyOwnOrigin(t *testing.T, tab *browser.Tab, page string) {
	t.Helper()
	own, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	requests := tab.Requests()
	if len(requests) < 5 {
		t.Errorf("requests: %q", requests)
	}
	for _, r := range requests {
		if u, err := url.Parse(r); err != nil || u.Scheme != own.Scheme || u.Host != own.Host {
			t.Errorf("the browser asked for %s", r)
		}
	}
	if p := tab.Problems(); len(p) > 0 {
		t.Errorf("the browser reports %q", p)
	}
}

// Text of tenants stays text.
func TestTextOfTenantsIsInert(t *testing.T) {
	w := newWorld(t, "worker-1")
	w.pool("edge", nil, "192.0.2.16/30")
	const evil = `<img src=x onerror="document.body.dataset.hacked=1"><script>document.body.dataset.hacked=1</script>`
	w.service("shop/pool", map[string]string{"fairlead.io/pool": evil})
	w.service("shop/address", map[string]string{"fairlead.io/addresses": evil})
	create(t, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "evil"}, InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web"},
		Reason: "Moved", Message: `Address 192.0.2.16 moved from ` + strings.ReplaceAll(evil, " ", "/") + `, announcing from node "` + strings.ReplaceAll(evil, `"`, "'") + `" with protocol "layer2": ` + evil, LastTimestamp: metav1.Now(), Source: corev1.EventSource{Component: "fairlead-agent"}})
	w.service("shop/web", nil)
	web := w.address("shop/web")
	w.announce("worker-1", web, "shop/"+evil, time.Minute)
	w.report("worker-1", func(s *v1alpha1.AgentStatus) {
		s.Interfaces[0].Obstacle = evil
		s.Unannounced = []v1alpha1.Unannounced{{Address: "192.0.2.18", Services: []string{"shop/address"}, Reason: "NotAnnounced", Message: evil, Since: metav1.Now()}}
	})
	page := browser.UI(t, theRig.API.Kubeconfig)
	tab := browser.Start(t).Open(page, 1200, 800)
	tab.Until("the page is painted", browser.Live)
	tab.Until("what waits is shown as text", `document.querySelector('#attention').innerText.includes('<img src=x onerror=')`)
	tab.Until("and what happened", `document.querySelector('#timeline').innerText.includes('<script>')`)
	tab.Click(`#attention .row`)
	tab.Until("why shows it, too", `document.querySelector('#why').innerText.includes('<img src=x onerror=')`)
	var bad bool
	if err := tab.Eval(`!!document.body.dataset.hacked || !!document.querySelector('main img, main script, #why img, #why script')`, &bad); err != nil || bad {
		t.Errorf("HTML of a tenant has an effect: %v", err)
	}
	// Even a script of the page itself could not make HTML of it.
	var refused bool
	if err := tab.Eval(`(() => { try { document.createElement('div').innerHTML = '<b>x</b>'; return false; } catch (e) { return e instanceof TypeError; } })()`, &refused); err != nil || !refused {
		t.Errorf("the policy of the page lets scripts make HTML of text: %v", err)
	}
	for _, r := range tab.Requests() {
		if !strings.HasPrefix(r, page) {
			t.Errorf("the browser asked for %s", r)
		}
	}
}

// While the API server is away, the page says as of when it knows what it shows.
func TestAway(t *testing.T) {
	w := newWorld(t, "worker-1", "worker-2")
	w.pool("edge", nil, "192.0.2.16/30")
	w.service("shop/web", nil)
	web := w.address("shop/web")
	w.announce("worker-1", web, "shop/web", time.Hour)
	w.report("worker-1", nil)
	page := browser.UI(t, theRig.API.Kubeconfig)
	tab := browser.Start(t).Open(page, 1200, 800)
	tab.Until("the page is live", browser.Live+" && "+browser.On(web, "worker-1"))
	if err := theRig.API.Kill(); err != nil {
		t.Fatal(err)
	}
	tab.Until("the page is of some time ago", `document.body.dataset.away === 'true' && /^as of \d\d:\d\d$/.test(document.querySelector('#asof').textContent)`)
	tab.Until("it shows what was so", browser.On(web, "worker-1"))
	tab.Picture("page-away")
	if err := theRig.API.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.move("worker-2", web, "shop/web")
	tab.Until("the page is live again", browser.Live+" && "+browser.On(web, "worker-2"))
}
