package cloudsigma

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	simulated "fairlead.io/sandbox/cloudsigma"
)

// otherCloud is the same cloud in other words: what it answers means the same, and is
// written as nobody has promised that it is not.
type otherCloud struct {
	next http.RoundTripper
	// answer changes each object of an answer, request what is sent.
	answer  func(path string, object map[string]any)
	request func(text string) string
}

func (c *otherCloud) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.request != nil {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = c.request(r.URL.Path), ""
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			body = []byte(c.request(string(body)))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil || resp.StatusCode > 299 {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	var body any
	if json.NewDecoder(resp.Body).Decode(&body) == nil {
		body = c.rewrite(r.URL.Path, body)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	resp.Header.Del("Content-Length")
	return resp, nil
}

func (c *otherCloud) rewrite(path string, value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = c.rewrite(path, v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = c.rewrite(path, v[key])
		}
		c.answer(path, v)
	}
	return value
}

var isServerID = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)

// Nothing depends on how a simulator of ours happens to write things.
func TestOtherWords(t *testing.T) {
	for name, other := range map[string]otherCloud{
		"more fields, and null for others": {answer: func(_ string, o map[string]any) {
			if _, is := o["resource_uri"]; is {
				o["x_new"] = map[string]any{"nics": []any{1}, "uuid": 7}
			}
			for _, key := range []string{"gateway", "nameservers", "permissions", "jobs", "grantees", "firewall_policy", "boot_order"} {
				if _, has := o[key]; has {
					o[key] = nil
				}
			}
		}},
		"other types": {answer: func(_ string, o map[string]any) {
			if n, is := o["netmask"].(float64); is && n > 0 {
				o["netmask"] = "24"
			}
			if _, has := o["meta"]; has && o["objects"] == nil && o["name"] == nil {
				o["meta"] = map[string]any{"n": 1, "nested": map[string]any{"a": []any{}}}
			}
			if _, has := o["tags"]; has {
				o["tags"] = []any{"0c4d0c4d-0000-4000-8000-000000000001"}
			}
			if s, is := o["subscription"].(map[string]any); is {
				s["id"] = "73"
			}
		}},
		"another order": {answer: func(_ string, o map[string]any) {
			if list, is := o["objects"].([]any); is {
				slices.Reverse(list)
			}
			if list, is := o["resources"].([]any); is {
				slices.Reverse(list)
			}
		}},
		"UUIDs instead of objects": {answer: func(_ string, o map[string]any) {
			for _, key := range []string{"ip", "server", "owner", "vlan", "ip_v4"} {
				if ref, is := o[key].(map[string]any); is && ref["uuid"] != nil {
					o[key] = ref["uuid"]
				}
			}
			if list, is := o["resources"].([]any); is {
				for i, r := range list {
					list[i] = r.(map[string]any)["uuid"]
				}
			}
		}},
		"empty lists left out": {answer: func(_ string, o map[string]any) {
			for key, value := range o {
				if list, is := value.([]any); is && len(list) == 0 && key != "objects" {
					delete(o, key)
				}
			}
		}},
		"capital letters": {
			answer: func(_ string, o map[string]any) {
				if id, is := o["uuid"].(string); is && isServerID.MatchString(id) {
					o["uuid"] = strings.ToUpper(id)
				}
				if mac, is := o["mac"].(string); is {
					o["mac"] = strings.ToUpper(mac)
				}
			},
			request: func(text string) string {
				text = regexp.MustCompile(`22(:[0-9A-F]{2}){5}`).ReplaceAllStringFunc(text, strings.ToLower)
				return isServerID.ReplaceAllStringFunc(text, strings.ToLower)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
				w.sim.AddTag("cluster:prod")
				w.sim.AddTag("service:of-nobody")
				other.next = w.sim.Client().Transport
				w.http = &other
				w.restart()
				web := w.create("web")
				w.settle()
				w.want("created", append(w.claimed("192.0.2.10", webTag, "worker-1"), "empty tag service:of-nobody")...)
				w.restart()
				w.node("worker-1").Ready = false
				w.settle()
				w.want("moved", append(w.claimed("192.0.2.10", webTag, "worker-2"), "empty tag service:of-nobody")...)
				w.delete(web)
				w.settle()
				w.want("deleted", "empty tag service:of-nobody")
			})
		})
	}
}

// A cloud writes IPv6 addresses in full. They are the same.
func TestLongAddresses(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 0, func(t *testing.T, w *world) {
		const short, long = "2001:db8::7", "2001:0db8:0000:0000:0000:0000:0000:0007"
		w.sim.Subscribe(netip.MustParseAddr(short))
		w.http = &otherCloud{
			next: w.sim.Client().Transport,
			answer: func(_ string, o map[string]any) {
				if o["uuid"] == short {
					o["uuid"] = long
				}
			},
			request: func(text string) string { return strings.ReplaceAll(text, long, short) },
		}
		w.restart()
		web := w.create("web", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })
		w.settle()
		w.want("created", w.claimed(short, webTag, "worker-1")...)
		if published(web) != short {
			t.Errorf("%q, %v", published(web), web.Status.Conditions)
		}
		w.node("worker-1").Ready = false
		w.settle()
		w.want("moved", w.claimed(short, webTag, "worker-2")...)
		w.delete(web)
		w.settle()
		w.want("deleted")
	})
}

// The account that is read is another one: a token on the wrong host acts for the
// service account, which has nothing. Nothing is believed, and nothing left behind.
func TestAnotherAccount(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
		web, gone := w.create("web"), w.create("gone")
		w.settle()
		before := w.state()
		w.http = &otherCloud{next: w.sim.Client().Transport, answer: func(_ string, o map[string]any) {
			if _, is := o["objects"]; is {
				o["objects"], o["meta"] = []any{}, map[string]any{"total_count": 0}
			}
		}}
		w.restart()
		w.sim.ResetLog()
		w.delete(gone)
		for range 3 {
			for _, s := range slices.Clone(w.services) {
				_, _ = w.look(s)
			}
		}
		if w.sim.Writes() != 0 || !slices.Equal(before, w.state()) || published(web) != "192.0.2.10" {
			t.Errorf("%s has %q, the cloud %v\n%s", web.Name, published(web), w.state(), w.requests())
		}
		if len(w.services) != 2 || says(gone) != AccessDenied {
			t.Errorf("the deletion says %q", says(gone))
		}
		w.http = nil
		w.restart()
		w.settle()
		w.want("as it was, without the deleted one", w.claimed("192.0.2.10", webTag, "worker-1")...)
	})
}
