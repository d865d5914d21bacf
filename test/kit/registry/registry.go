// Package registry is a registry in memory, for tests: it speaks the OCI distribution API,
// demands a token for every request, checks digests, and fails on demand. It knows nothing
// of what is stored.
package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Registry is a running registry.
type Registry struct {
	Host string // address and port; it speaks plain HTTP
	// Fail, if set, is asked about each request, and its status answered instead of 0.
	// It is set before the first request.
	Fail func(*http.Request) int

	user, password, token string

	mu        sync.Mutex
	blobs     map[string][]byte // by repository and digest
	manifests map[string]manifest
	uploads   map[string][]byte // by repository and ID
	requests  []string          // what was stored
	remaining int               // how much more may be stored; -1 is no limit
}

type manifest struct {
	mediaType string
	content   []byte
}

// Start runs a registry until the test ends. Only this user gets tokens.
func Start(t testing.TB, user, password string) *Registry {
	t.Helper()
	r := &Registry{
		user: user, password: password, token: rand.Text(),
		blobs: map[string][]byte{}, manifests: map[string]manifest{}, uploads: map[string][]byte{}, remaining: -1,
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// FailPut makes the registry fail once, after it has stored so many things.
func (r *Registry) FailPut(after int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remaining = after
}

// Token is what clients of the registry get for their password.
func (r *Registry) Token() string { return r.token }

// Writes returns what has been stored since the last call.
func (r *Registry) Writes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.requests
	r.requests = nil
	return writes
}

// Digest is what a tag names, or "".
func (r *Registry) Digest(repository, tag string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, found := r.manifests[repository+"@"+tag]
	if !found {
		return ""
	}
	return digestOf(m.content)
}

// Put stores a manifest under a tag, until remove is called.
func (r *Registry) Put(repository, tag string, content []byte) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.manifests[repository+"@"+tag] = manifest{"application/vnd.oci.image.manifest.v1+json", content}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.manifests, repository+"@"+tag)
	}
}

// Manifest is what a tag or a digest names.
func (r *Registry) Manifest(repository, reference string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manifests[repository+"@"+reference].content
}

// Blob is a blob of a repository.
func (r *Registry) Blob(repository, digest string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blobs[repository+"@"+digest]
}

func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if r.Fail != nil {
		if status := r.Fail(request); status != 0 {
			// A bad registry repeats what it got.
			http.Error(w, "out of order: "+request.Header.Get("Authorization"), status)
			return
		}
	}
	if request.URL.Path == "/token" {
		if user, password, _ := request.BasicAuth(); user != r.user || password != r.password {
			http.Error(w, "wrong password "+password, http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": r.token})
		return
	}
	if request.Header.Get("Authorization") != "Bearer "+r.token {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, r.Host))
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	content, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path := strings.TrimPrefix(request.URL.Path, "/v2/")
	if request.Method == http.MethodPut && r.remaining >= 0 {
		if r.remaining--; r.remaining < 0 {
			http.Error(w, "disk full", http.StatusInsufficientStorage)
			return
		}
	}
	switch {
	case path == "" || path == "/":
	case strings.Contains(path, "/blobs/uploads/"):
		r.serveUpload(w, request, path, content)
	case strings.Contains(path, "/blobs/"):
		repository, digest, _ := strings.Cut(path, "/blobs/")
		blob, found := r.blobs[repository+"@"+digest]
		answer(w, request, "application/octet-stream", blob, found)
	case strings.Contains(path, "/manifests/"):
		r.serveManifest(w, request, path, content)
	default:
		http.NotFound(w, request)
	}
}

// serveUpload takes a blob, in one piece or in several.
func (r *Registry) serveUpload(w http.ResponseWriter, request *http.Request, path string, content []byte) {
	repository, id, _ := strings.Cut(path, "/blobs/uploads/")
	if request.Method == http.MethodPost {
		id = rand.Text()
		r.uploads[repository+"@"+id] = nil
		w.Header().Set("Location", "/v2/"+repository+"/blobs/uploads/"+id+"?state=1")
		w.WriteHeader(http.StatusAccepted)
		return
	}
	key := repository + "@" + id
	begun, found := r.uploads[key]
	if !found || request.URL.Query().Get("state") != "1" { // clients must keep the query
		http.Error(w, "unknown upload", http.StatusNotFound)
		return
	}
	switch request.Method {
	case http.MethodPatch:
		r.uploads[key] = append(begun, content...)
		w.Header().Set("Location", "/v2/"+path+"?state=1")
		w.WriteHeader(http.StatusAccepted)
	case http.MethodDelete:
		delete(r.uploads, key)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		blob := append(begun, content...)
		digest := request.URL.Query().Get("digest")
		if digest != digestOf(blob) {
			http.Error(w, "digest does not match", http.StatusBadRequest)
			return
		}
		delete(r.uploads, key)
		r.blobs[repository+"@"+digest] = blob
		r.requests = append(r.requests, "PUT "+repository+" "+digest)
		w.WriteHeader(http.StatusCreated)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// serveManifest refuses a manifest whose parts are not there.
func (r *Registry) serveManifest(w http.ResponseWriter, request *http.Request, path string, content []byte) {
	repository, reference, _ := strings.Cut(path, "/manifests/")
	if request.Method != http.MethodPut {
		m, found := r.manifests[repository+"@"+reference]
		answer(w, request, m.mediaType, m.content, found)
		return
	}
	type descriptor struct{ Digest string }
	var m struct {
		Config            *descriptor
		Layers, Manifests []descriptor
	}
	if err := json.Unmarshal(content, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	parts := m.Layers
	if m.Config != nil {
		parts = append(parts, *m.Config)
	}
	for _, d := range parts {
		if _, found := r.blobs[repository+"@"+d.Digest]; !found {
			http.Error(w, "unknown blob "+d.Digest, http.StatusBadRequest)
			return
		}
	}
	for _, d := range m.Manifests {
		if _, found := r.manifests[repository+"@"+d.Digest]; !found {
			http.Error(w, "unknown manifest "+d.Digest, http.StatusBadRequest)
			return
		}
	}
	stored := manifest{request.Header.Get("Content-Type"), content}
	r.manifests[repository+"@"+reference], r.manifests[repository+"@"+digestOf(content)] = stored, stored
	r.requests = append(r.requests, "PUT "+repository+" "+reference)
	w.Header().Set("Docker-Content-Digest", digestOf(content))
	w.WriteHeader(http.StatusCreated)
}

func answer(w http.ResponseWriter, request *http.Request, mediaType string, content []byte, found bool) {
	if !found {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digestOf(content))
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if request.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }
