package cloudsigma

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.io/internal/cloud"
)

// Names of the environment variables that are read. Those of secrets may also name
// a file, with _FILE at the end.
const (
	EnvRegion = "CLOUDSIGMA_REGION"
	// EnvLocation is what Terraform's provider calls the region.
	EnvLocation = "CLOUDSIGMA_LOCATION"
	// EnvEndpoint is where the API is, with or without /api/2.0, instead of the
	// region's host.
	EnvEndpoint = "CLOUDSIGMA_API_ENDPOINT"
	// EnvTimeout is how many seconds an answer may take.
	EnvTimeout = "CLOUDSIGMA_API_TIMEOUT"

	EnvOAuthURL     = "CLOUDSIGMA_OAUTH_URL"
	EnvOAuthURL2    = "CS_OAUTH_URL"
	EnvClientID     = "CLOUDSIGMA_CLIENT_ID"
	EnvClientSecret = "CLOUDSIGMA_CLIENT_SECRET"
	EnvUserEmail    = "CLOUDSIGMA_USER_EMAIL"

	EnvToken = "CLOUDSIGMA_TOKEN"

	EnvUsername = "CLOUDSIGMA_USERNAME"
	EnvPassword = "CLOUDSIGMA_PASSWORD"
	// EnvLegacyCredentials prefers name and password where OAuth is configured too.
	EnvLegacyCredentials = "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"
)

// DefaultTimeout of one attempt of a call. The cloud is slow at times.
const DefaultTimeout = 30 * time.Second

// Options of a client.
type Options struct {
	// Region is a code such as zrh.
	Region string
	// Endpoint, if it is not empty, is used instead of the region's host.
	Endpoint string

	// One of these is how the client authenticates.
	OAuth *OAuth
	Token *cloud.Secret
	Basic *cloud.Basic

	// Timeout of one attempt of a call; 0 is DefaultTimeout.
	Timeout time.Duration
	// Metrics of the calls are registered here, if it is not nil.
	Metrics prometheus.Registerer
	// HTTP does the calls; nil is a transport of its own.
	HTTP http.RoundTripper
}

// OAuth is authentication of a service account that acts for a user.
type OAuth struct {
	URL          string // of Keycloak
	ClientID     string
	ClientSecret *cloud.Secret
	UserEmail    string
}

// Configured says whether the environment has the region or endpoint, and some way
// to authenticate.
func Configured(getenv func(string) string) bool {
	has := func(names ...string) bool {
		for _, name := range names {
			if getenv(name) != "" || getenv(name+"_FILE") != "" {
				return true
			}
		}
		return false
	}
	return has(EnvRegion, EnvLocation, EnvEndpoint) && has(EnvOAuthURL, EnvOAuthURL2, EnvToken, EnvUsername)
}

// FromEnv reads options from the environment. Callers that have flags too answer
// with their values when asked for these variables. The first complete way to
// authenticate is used: OAuth, token, name and password.
func FromEnv(getenv func(string) string) (Options, error) {
	o := Options{Region: cmp.Or(getenv(EnvRegion), getenv(EnvLocation)), Endpoint: getenv(EnvEndpoint), Timeout: DefaultTimeout}
	if value := getenv(EnvTimeout); value != "" {
		s, err := strconv.Atoi(value)
		if err != nil || s < 1 {
			return o, fmt.Errorf("%s is %q: set it to a number of seconds, such as 30", EnvTimeout, value)
		}
		o.Timeout = time.Duration(s) * time.Second
	}
	if o.Region == "" {
		_, err := hostOf("")
		return o, err
	}
	legacy, err := Bool(getenv, EnvLegacyCredentials)
	if err != nil {
		return o, err
	}
	given := func(name string) bool { return getenv(name) != "" || getenv(name+"_FILE") != "" }
	oauth := cmp.Or(getenv(EnvOAuthURL), getenv(EnvOAuthURL2))
	switch basic := getenv(EnvUsername) != "" && given(EnvPassword); {
	case oauth != "" && getenv(EnvClientID) != "" && given(EnvClientSecret) && !(legacy && basic):
		o.OAuth = &OAuth{URL: oauth, ClientID: getenv(EnvClientID), UserEmail: getenv(EnvUserEmail)}
		if o.OAuth.UserEmail == "" {
			return o, fmt.Errorf("no user configured: set --user-email or %s to the email address of the user to act for; OAuth needs it", EnvUserEmail)
		}
		o.OAuth.ClientSecret, err = cloud.SecretFromEnv(getenv, EnvClientSecret, "client secret", nil)
	case given(EnvToken) && !(legacy && basic):
		o.Token, err = cloud.TokenFromEnv(getenv, EnvToken)
	case basic:
		o.Basic = &cloud.Basic{User: getenv(EnvUsername)}
		o.Basic.Password, err = cloud.SecretFromEnv(getenv, EnvPassword, "password", nil)
	default:
		err = errNoCredentials
	}
	if err != nil {
		return o, err
	}
	_, err = endpointsOf(o.Region, o.Endpoint, o.OAuth != nil)
	return o, err
}

// Bool reads a variable that is true or false. Without a value it is false.
func Bool(getenv func(string) string, name string) (bool, error) {
	value := getenv(name)
	if value == "" {
		return false, nil
	}
	set, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s is %q: set it to true or false", name, value)
	}
	return set, nil
}

var errNoCredentials = errors.New("no complete credentials configured: set " + EnvOAuthURL + ", " + EnvClientID + ", " + EnvClientSecret + " and " + EnvUserEmail +
	"; or " + EnvToken + "; or " + EnvUsername + " and " + EnvPassword)

// Way describes, without any secret, how the client authenticates.
func (o Options) Way() string {
	switch {
	case o.OAuth != nil:
		return "OAuth as " + o.OAuth.UserEmail
	case o.Token != nil:
		return "token " + o.Token.String()
	case o.Basic != nil:
		return "user " + o.Basic.User
	default:
		return "none"
	}
}

// BetterHost is the host that serves impersonated users, if Endpoint is the region's
// other one: there, their tokens act for the service account, which has no servers.
func (o Options) BetterHost() (host string, better bool) {
	u, err := url.Parse(o.Endpoint)
	plain, unknown := hostOf(o.Region)
	if o.OAuth == nil || err != nil || unknown != nil || !strings.EqualFold(u.Hostname(), plain) {
		return "", false
	}
	return directPrefix + plain, true
}

// transport is the client that the calls are sent by.
func (o Options) transport() (*cloud.Client, error) {
	at, err := endpointsOf(o.Region, o.Endpoint, o.OAuth != nil)
	if err != nil {
		return nil, err
	}
	var auth cloud.Auth
	switch {
	case o.OAuth != nil:
		if auth, err = newImpersonation(*o.OAuth, at.impersonate, o.HTTP); err != nil {
			return nil, err
		}
	case o.Token != nil:
		auth = cloud.Bearer{Token: o.Token}
	case o.Basic != nil:
		auth = *o.Basic
	default:
		return nil, errNoCredentials
	}
	m, err := cloud.NewMetrics(o.Metrics, requestsOpts, durationOpts)
	if err != nil {
		return nil, err
	}
	return cloud.New(cloud.Options{URL: at.api, Auth: auth, Timeout: cmp.Or(o.Timeout, DefaultTimeout), Explain: explain, Metrics: m, HTTP: o.HTTP}), nil
}
