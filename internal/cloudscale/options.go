package cloudscale

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/cloud"
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

const defaultURL = "https://api.cloudscale.ch"

// Options of a client.
type Options struct {
	Token *cloud.Secret
	// URL of the API, without /v1; empty is cloudscale's.
	URL string
	// Timeout of one attempt of a call; 0 is cloud.DefaultTimeout.
	Timeout time.Duration
	// Metrics of the calls are registered here, if it is not nil.
	Metrics prometheus.Registerer
	// HTTP does the calls; nil is a transport of its own.
	HTTP http.RoundTripper
}

// Configured says whether the environment has an access token.
func Configured(getenv func(string) string) bool {
	return getenv(EnvToken) != "" || getenv(EnvTokenFile) != ""
}

// FromEnv reads options from the environment. A time-out that is not a number of
// seconds is ignored, as cloudscale's own controller does.
func FromEnv(getenv func(string) string) (Options, error) {
	o := Options{URL: getenv(EnvURL), Timeout: cloud.DefaultTimeout}
	if s, err := strconv.Atoi(getenv(EnvTimeout)); err == nil && s > 0 {
		o.Timeout = time.Duration(s) * time.Second
	}
	if _, err := baseURL(o.URL); err != nil {
		return o, err
	}
	var err error
	o.Token, err = cloud.TokenFromEnv(getenv, EnvToken)
	return o, err
}

// transport is the client that the calls are sent by.
func (o Options) transport() (*cloud.Client, error) {
	if o.Token == nil {
		return nil, fmt.Errorf("no %s configured", EnvToken)
	}
	base, err := baseURL(o.URL)
	if err != nil {
		return nil, err
	}
	m, err := cloud.NewMetrics(o.Metrics, requestsOpts, durationOpts)
	if err != nil {
		return nil, err
	}
	return cloud.New(cloud.Options{URL: base, Auth: cloud.Bearer{Token: o.Token}, Timeout: o.Timeout, Explain: explain, Metrics: m, HTTP: o.HTTP}), nil
}

// baseURL is where paths that begin with v1/ are added.
func baseURL(s string) (string, error) {
	return cloud.ParseURL(EnvURL, cmp.Or(s, defaultURL), defaultURL)
}
