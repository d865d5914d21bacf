package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Registry is a repository host that speaks the OCI distribution API.
type Registry struct {
	Host           string // with a port if it is not 443
	User, Password string
	// HTTP is the client to use; default http.DefaultClient.
	HTTP *http.Client

	tokens map[string]string // Authorization header by repository
}

// ErrOther says that a tag exists with other content.
var ErrOther = errors.New("the tag exists with other content")

// Loopback says whether a host is this machine. Only there, plain HTTP is used.
func Loopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *Registry) url(parts ...string) string {
	scheme := "https"
	if Loopback(r.Host) {
		scheme = "http"
	}
	return scheme + "://" + r.Host + "/v2/" + strings.Join(parts, "/")
}

// Login makes sure that the registry answers, and accepts the credentials for a
// repository.
func (r *Registry) Login(ctx context.Context, repository string) error {
	response, err := r.do(ctx, repository, http.MethodPost, r.url(repository, "blobs", "uploads")+"/", nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusAccepted {
		return r.failed(response, "begin an upload to "+repository)
	}
	// The upload is not wanted. Registries forget it if this does not work.
	location, err := response.Request.URL.Parse(response.Header.Get("Location"))
	if err != nil {
		return fmt.Errorf("begin an upload to %s: %s answers with a bad location", repository, r.Host)
	}
	if cancelled, err := r.do(ctx, repository, http.MethodDelete, location.String(), nil, nil); err == nil {
		return cancelled.Body.Close()
	}
	return nil
}

// Resolve returns the digest of a tag, or "" if there is none.
func (r *Registry) Resolve(ctx context.Context, repository, tag string) (string, error) {
	response, err := r.do(ctx, repository, http.MethodGet, r.url(repository, "manifests", tag), http.Header{"Accept": {MediaIndex, MediaManifest}}, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusNotFound:
		return "", nil
	case http.StatusOK:
		content, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
		if err != nil {
			return "", r.hide(fmt.Errorf("read %s:%s: %w", repository, tag, err))
		}
		return Digest(content), nil
	default:
		return "", r.failed(response, "read "+repository+":"+tag)
	}
}

// Has says whether a repository has a blob.
func (r *Registry) Has(ctx context.Context, repository string, d Descriptor) (bool, error) {
	kind := "blobs"
	if d.MediaType == MediaManifest || d.MediaType == MediaIndex {
		kind = "manifests"
	}
	response, err := r.do(ctx, repository, http.MethodHead, r.url(repository, kind, d.Digest), http.Header{"Accept": {MediaIndex, MediaManifest}}, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	default:
		return false, r.failed(response, "look for "+d.Digest+" in "+repository)
	}
}

// PutBlob uploads a blob in one piece. The registry checks its digest.
func (r *Registry) PutBlob(ctx context.Context, repository string, d Descriptor, content []byte) error {
	what := "upload " + d.Digest + " to " + repository
	begun, err := r.do(ctx, repository, http.MethodPost, r.url(repository, "blobs", "uploads")+"/", nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = begun.Body.Close() }()
	if begun.StatusCode != http.StatusAccepted {
		return r.failed(begun, what)
	}
	location, err := begun.Request.URL.Parse(begun.Header.Get("Location"))
	if err != nil {
		return fmt.Errorf("%s: %s answers with a bad location", what, r.Host)
	}
	query := location.Query()
	query.Set("digest", d.Digest)
	location.RawQuery = query.Encode()
	done, err := r.do(ctx, repository, http.MethodPut, location.String(), http.Header{"Content-Type": {"application/octet-stream"}}, content)
	if err != nil {
		return err
	}
	defer func() { _ = done.Body.Close() }()
	if done.StatusCode != http.StatusCreated {
		return r.failed(done, what)
	}
	return nil
}

// PutManifest uploads a manifest or an index under a tag or its digest.
func (r *Registry) PutManifest(ctx context.Context, repository, reference string, d Descriptor, content []byte) error {
	what := "upload the manifest " + repository + ":" + reference
	response, err := r.do(ctx, repository, http.MethodPut, r.url(repository, "manifests", reference), http.Header{"Content-Type": {d.MediaType}}, content)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated {
		return r.failed(response, what)
	}
	if got := response.Header.Get("Docker-Content-Digest"); got != "" && got != d.Digest {
		return fmt.Errorf("%s: %s stored it as %s, not as %s", what, r.Host, got, d.Digest)
	}
	return nil
}

// do sends a request, with a token for the repository where the registry wants one.
func (r *Registry) do(ctx context.Context, repository, method, target string, header http.Header, content []byte) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(content))
		if err != nil {
			return nil, r.hide(err)
		}
		for key, values := range header {
			request.Header[key] = values
		}
		if request.URL.Host == r.Host && r.tokens[repository] != "" { // never to another host
			request.Header.Set("Authorization", r.tokens[repository])
		}
		response, err := r.client().Do(request)
		if err != nil {
			return nil, r.hide(fmt.Errorf("reach the registry: %w", err))
		}
		if response.StatusCode != http.StatusUnauthorized || attempt > 0 || request.URL.Host != r.Host {
			return response, nil
		}
		challenge := response.Header.Get("WWW-Authenticate")
		if err := response.Body.Close(); err != nil {
			return nil, r.hide(err)
		}
		authorization, err := r.authorize(ctx, challenge, repository)
		if err != nil {
			return nil, err
		}
		if r.tokens == nil {
			r.tokens = map[string]string{}
		}
		r.tokens[repository] = authorization
	}
}

func (r *Registry) client() *http.Client {
	if r.HTTP != nil {
		return r.HTTP
	}
	return http.DefaultClient
}

// failed is what a registry answered, in one sentence.
func (r *Registry) failed(response *http.Response, what string) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // the status says enough
	answer := strings.Join(strings.Fields(string(text)), " ")
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return r.hide(fmt.Errorf("%s: %s refuses the user %q (%s). Check the user, the password, and that the user may write there: %s", what, r.Host, r.User, response.Status, answer))
	}
	return r.hide(fmt.Errorf("%s: %s answers %s: %s", what, r.Host, response.Status, answer))
}

// hide removes secrets from an error: a registry may repeat what it was sent, and an
// error of the HTTP client names its URL.
func (r *Registry) hide(err error) error {
	text := err.Error()
	secrets := []string{r.Password, url.QueryEscape(r.Password)}
	for _, authorization := range r.tokens {
		_, token, _ := strings.Cut(authorization, " ")
		secrets = append(secrets, token)
	}
	hidden := text
	for _, secret := range secrets {
		if secret != "" {
			hidden = strings.ReplaceAll(hidden, secret, "***")
		}
	}
	if hidden == text {
		return err
	}
	return errors.New(hidden)
}
