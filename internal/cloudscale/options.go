package cloudscale

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the environment variables that are read.
const (
	// EnvToken is the access token, with read and write access to the project.
	EnvToken = "CLOUDSCALE_ACCESS_TOKEN"
	// EnvTokenFile is a file with the access token. It is read again when it
	// changes.
	EnvTokenFile = "CLOUDSCALE_ACCESS_TOKEN_FILE"
	// EnvURL is where the API is, without /v1.
	EnvURL = "CLOUDSCALE_API_URL"
	// EnvTimeout is how many seconds an answer may take.
	EnvTimeout = "CLOUDSCALE_API_TIMEOUT"
)

const (
	defaultURL     = "https://api.cloudscale.ch"
	defaultTimeout = 20 * time.Second
)

// Options of a client.
type Options struct {
	Token *Token
	// URL of the API, without /v1; empty is cloudscale's.
	URL string
	// Timeout of one attempt of a call; 0 is 20 seconds.
	Timeout time.Duration
	// Metrics of the calls are registered here, if it is not nil.
	Metrics prometheus.Registerer
	// HTTP does the calls; nil is a transport of its own.
	HTTP http.RoundTripper
}

// Configured tells whether the environment has an access token.
func Configured(getenv func(string) string) bool {
	return getenv(EnvToken) != "" || getenv(EnvTokenFile) != ""
}

// FromEnv reads options from the environment. A time-out that is no number of
// seconds is ignored, as cloudscale's own controller does.
func FromEnv(getenv func(string) string) (Options, error) {
	o := Options{URL: getenv(EnvURL), Timeout: defaultTimeout}
	if s, err := strconv.Atoi(getenv(EnvTimeout)); err == nil && s > 0 {
		o.Timeout = time.Duration(s) * time.Second
	}
	if _, err := baseURL(o.URL); err != nil {
		return o, err
	}
	var err error
	switch value, file := getenv(EnvToken), getenv(EnvTokenFile); {
	case value != "":
		o.Token, err = NewToken(value)
	case file != "":
		o.Token, err = TokenFile(file)
	default:
		err = fmt.Errorf("no %s configured", EnvToken)
	}
	return o, err
}

// baseURL is where paths that begin with v1/ are added.
func baseURL(s string) (string, error) {
	if s == "" {
		s = defaultURL
	}
	u, err := url.Parse(s)
	if err != nil {
		// The error would quote all of it, and there may be a password in it.
		return "", fmt.Errorf("%s is not a URL", EnvURL)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return "", fmt.Errorf("%s must be like %s", EnvURL, defaultURL)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New(EnvURL + " must have neither a user nor a query")
	}
	return strings.TrimRight(u.String(), "/") + "/", nil
}
