package page

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// Loopback serves the page to one person on this machine. The first part of the path is a
// token that only this person knows, and the name of the server has to be that of a
// loopback address: a site whose name leads here gets nothing.
type Loopback struct {
	token string
	port  string
	inner http.Handler
}

// NewLoopback returns a page for the address, which has to be a loopback address with a
// port.
func NewLoopback(p *Page, address string) (*Loopback, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/data/", p.Data())
	mux.Handle("/", p.Shell())
	token := rand.Text()
	return &Loopback{token: token, port: port, inner: http.StripPrefix("/"+token, mux)}, nil
}

// URL of the page.
func (l *Loopback) URL() string { return "http://127.0.0.1:" + l.port + "/" + l.token + "/" }

// ServeHTTP answers requests that have the token, and were sent to this machine by name.
func (l *Loopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if host, port, err := net.SplitHostPort(r.Host); err != nil || port != l.port || host != "127.0.0.1" && host != "localhost" && host != "::1" {
		http.Error(w, "this page is served as 127.0.0.1 only", http.StatusForbidden)
		return
	}
	token, _, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) != 1 {
		http.Error(w, "the token of the page is missing: use the address that kubectl fairlead ui has printed", http.StatusForbidden)
		return
	}
	l.inner.ServeHTTP(w, r)
}
