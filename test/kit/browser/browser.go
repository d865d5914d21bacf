// Package browser drives a real browser in tests: Debian's Chromium without a screen. It
// speaks the DevTools protocol over a pipe.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
)

// deadline is how long anything may take on a slow machine.
const deadline = 2 * time.Minute

// Browser is one that runs.
type Browser struct {
	t     testing.TB
	write *os.File

	mu      sync.Mutex
	next    int
	answers map[int]chan answer
	tabs    map[string]*Tab
}

// command is what is asked of the browser.
type command struct {
	ID      int    `json:"id"`
	Session string `json:"sessionId,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// answer is what the browser sends: an answer, or an event.
type answer struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts a browser, which ends with the test. It knows no name but those of this
// machine.
func Start(t testing.TB) *Browser {
	t.Helper()
	netns.Need(t, "chromium")
	theirRead, ourWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourRead, theirWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "chromium", "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-features=Translate,OptimizationHints,MediaRouter", "--hide-scrollbars", "--ignore-certificate-errors", "--force-color-profile=srgb",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.test",
		"--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "TZ=UTC")
	cmd.ExtraFiles = []*os.File{theirRead, theirWrite}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	_, _ = theirRead.Close(), theirWrite.Close()
	b := &Browser{t: t, write: ourWrite, answers: map[int]chan answer{}, tabs: map[string]*Tab{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.read(ourRead)
	}()
	t.Cleanup(func() {
		_ = ourWrite.Close()
		cancel()
		_ = cmd.Wait()
		_ = ourRead.Close()
		<-ended
		if t.Failed() {
			for line := range strings.Lines(output.String()) {
				if !strings.Contains(line, "dbus") { // there is none, and none is needed
					t.Log("chromium: ", line)
				}
			}
		}
	})
	return b
}

// read takes what the browser sends.
func (b *Browser) read(from *os.File) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		data, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for _, waiting := range b.answers {
				close(waiting)
			}
			b.answers = nil
			b.mu.Unlock()
			return
		}
		var a answer
		if json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &a) != nil {
			continue
		}
		b.mu.Lock()
		tab, waiting := b.tabs[a.Session], b.answers[a.ID]
		if a.ID != 0 {
			delete(b.answers, a.ID)
		}
		b.mu.Unlock()
		switch {
		case a.ID != 0 && waiting != nil:
			waiting <- a
		case a.Method != "" && tab != nil:
			tab.event(a.Method, a.Params)
		}
	}
}

// call asks for something, and puts the answer into result unless that is nil.
func (b *Browser) call(session, method string, params, result any) error {
	b.mu.Lock()
	if b.answers == nil {
		b.mu.Unlock()
		return errors.New("the browser has ended")
	}
	b.next++
	id, waiting := b.next, make(chan answer, 1)
	b.answers[id] = waiting
	data, err := json.Marshal(command{id, session, method, params})
	if err == nil {
		_, err = b.write.Write(append(data, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a, ok := <-waiting:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-time.After(deadline):
		return fmt.Errorf("%s: no answer", method)
	}
}

// Tab is a page.
type Tab struct {
	b       *Browser
	session string

	mu       sync.Mutex
	requests []string
	problems []string
}

// Open opens a page in a window of that size.
func (b *Browser) Open(url string, width, height int) *Tab {
	b.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.must(b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target))
	b.must(b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached))
	tab := &Tab{b: b, session: attached.SessionID}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Network.enable", "Log.enable"} {
		b.must(tab.call(domain, nil, nil))
	}
	b.must(tab.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil))
	tab.Go(url)
	return tab
}

func (b *Browser) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (t *Tab) call(method string, params, result any) error {
	return t.b.call(t.session, method, params, result)
}

// Go loads another page, and waits for its scripts: keys that come before them are lost.
func (t *Tab) Go(url string) {
	t.b.t.Helper()
	t.b.must(t.call("Page.navigate", map[string]any{"url": url}, nil))
	t.Until("the page is loaded", `document.readyState === "complete"`)
}

// event takes over what the browser reports about the page.
func (t *Tab) event(method string, params json.RawMessage) {
	var p struct {
		Request struct {
			URL string `json:"url"`
		} `json:"request"`
		Exception struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
		Entry struct {
			Level string `json:"level"`
			Text  string `json:"text"`
			URL   string `json:"url"`
		} `json:"entry"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		t.requests = append(t.requests, p.Request.URL)
	case "Runtime.exceptionThrown":
		t.problems = append(t.problems, p.Exception.Text+" "+p.Exception.Exception.Description)
	case "Log.entryAdded":
		if p.Entry.Level == "error" {
			t.problems = append(t.problems, p.Entry.Text+" "+p.Entry.URL)
		}
	}
}

// Requests are the addresses that the page has asked for.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.requests...)
}

// Problems are exceptions of scripts, and errors such as what the policy of the page
// forbids.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.problems...)
}

// Eval returns the value of an expression, which may be a promise.
func (t *Tab) Eval(expression string, value any) error {
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := t.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &out); err != nil {
		return err
	}
	if out.Exception != nil {
		return fmt.Errorf("%s: %s %s", expression, out.Exception.Text, out.Exception.Exception.Description)
	}
	if value == nil || out.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(out.Result.Value, value)
}

// Text of the first element that a selector finds; "" if there is none.
func (t *Tab) Text(selector string) string {
	t.b.t.Helper()
	quoted, _ := json.Marshal(selector)
	var text string
	t.b.must(t.Eval("document.querySelector("+string(quoted)+")?.innerText ?? ''", &text))
	return text
}

// Until waits for an expression to be true. It is looked at in each frame that the
// browser paints. One that throws, as on a page that is not there yet, is looked at
// again: without the second half of the promise it would never be answered.
func (t *Tab) Until(what, expression string) {
	t.b.t.Helper()
	end := time.Now().Add(deadline)
	for {
		var is bool
		err := t.Eval("new Promise((done, failed) => requestAnimationFrame(() => { try { done(!!("+expression+")) } catch (e) { failed(e) } }))", &is)
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			t.b.t.Fatalf("%s: %v; problems: %q; page: %s", what, err, t.Problems(), t.Text("body"))
		}
	}
}

// Key presses a key: "/", "Enter", "ArrowDown".
func (t *Tab) Key(name string) {
	t.b.t.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}
	params := map[string]any{"type": "keyDown", "key": name}
	if code := codes[name]; code != 0 {
		params["windowsVirtualKeyCode"], params["code"] = code, name
	} else {
		params["text"] = name
	}
	t.b.must(t.call("Input.dispatchKeyEvent", params, nil))
	params["type"] = "keyUp"
	delete(params, "text")
	t.b.must(t.call("Input.dispatchKeyEvent", params, nil))
}

// Click clicks into the middle of the first element that a selector finds.
func (t *Tab) Click(selector string) {
	t.b.t.Helper()
	quoted, _ := json.Marshal(selector)
	var at struct{ X, Y float64 }
	t.b.must(t.Eval("(() => { const r = document.querySelector("+string(quoted)+").getBoundingClientRect(); return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()", &at))
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		t.b.must(t.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil))
	}
}

// Dark says whether the system of the viewer is dark.
func (t *Tab) Dark(is bool) {
	t.b.t.Helper()
	value := map[bool]string{true: "dark", false: "light"}[is]
	t.b.must(t.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": value}}}, nil))
}

// Screenshot writes a picture of the page into a file.
func (t *Tab) Screenshot(file string) {
	t.b.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	t.b.must(t.call("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &shot))
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	t.b.must(err)
	t.b.must(os.WriteFile(file, data, 0o644))
}
