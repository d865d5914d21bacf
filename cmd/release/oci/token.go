package oci

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// authorize answers a registry's challenge: the Authorization header for a repository.
func (r *Registry) authorize(ctx context.Context, challenge, repository string) (string, error) {
	if r.Password == "" {
		return "", fmt.Errorf("%s wants credentials, and none are set", r.Host)
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(r.User+":"+r.Password))
	scheme, parameters := parseChallenge(challenge)
	switch scheme {
	case "basic":
		return basic, nil
	case "bearer":
		return r.bearer(ctx, parameters, basic, repository)
	default:
		return "", fmt.Errorf("%s wants credentials in an unknown way: %q", r.Host, scheme)
	}
}

// bearer gets a token for a repository where the registry says.
func (r *Registry) bearer(ctx context.Context, parameters map[string]string, basic, repository string) (string, error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Host == "" {
		return "", fmt.Errorf("%s does not say where to get a token", r.Host)
	}
	if realm.Scheme != "https" && !(Loopback(r.Host) && Loopback(realm.Host)) {
		return "", fmt.Errorf("%s wants the password sent to %s without encryption; it is not sent", r.Host, realm.Host)
	}
	query := realm.Query()
	if service := parameters["service"]; service != "" {
		query.Set("service", service)
	}
	query.Set("scope", "repository:"+repository+":pull,push")
	realm.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", basic)
	response, err := r.client().Do(request)
	if err != nil {
		return "", r.hide(fmt.Errorf("get a token for %s: %w", repository, err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", r.failed(response, "get a token for "+repository)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer); err != nil {
		return "", fmt.Errorf("get a token for %s: read the answer: %w", repository, err)
	}
	token := answer.Token
	if token == "" {
		token = answer.AccessToken
	}
	if token == "" {
		return "", fmt.Errorf("get a token for %s: the answer has none", repository)
	}
	return "Bearer " + token, nil
}

// parseChallenge reads a header such as `Bearer realm="…",service="…"`.
func parseChallenge(header string) (scheme string, parameters map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	parameters = map[string]string{}
	for rest = strings.TrimLeft(rest, " ,"); rest != ""; rest = strings.TrimLeft(rest, " ,") {
		key, after, found := strings.Cut(rest, "=")
		if !found {
			break
		}
		var value string
		if quoted, is := strings.CutPrefix(after, `"`); is {
			value, rest, _ = strings.Cut(quoted, `"`)
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		parameters[strings.ToLower(strings.TrimSpace(key))] = value
	}
	return strings.ToLower(scheme), parameters
}
