package cloudsigma

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"fairlead.io/internal/cloud"
)

const (
	tokenPath     = "realms/cloudsigma/protocol/openid-connect/token"
	tokenAudience = "service_provider_api"
	ticketGrant   = "urn:ietf:params:oauth:grant-type:uma-ticket"

	// defaultLifetime of a token whose end is not told.
	defaultLifetime = 15 * time.Minute
	// renewBefore its end, or a third of the lifetime of a short one.
	renewBefore = 5 * time.Minute
	// renewPause is between attempts to renew a token that still works.
	renewPause = 10 * time.Second

	maxTokenBody = 1 << 20
)

// impersonation gets tokens of a user for a service account: a token of the
// account's own, a ticket for the service provider's API, and for these the user's
// token. The last is kept until it is about to end.
type impersonation struct {
	OAuth
	tokenURL, impersonateURL string
	http                     *http.Client

	turn chan struct{} // has a token while somebody reads or renews what follows
	now  proof
	next time.Time // no attempt to renew before
}

// proof is a user's token.
type proof struct {
	token      string
	renew, end time.Time
}

var _ cloud.Renewer = (*impersonation)(nil)

func newImpersonation(o OAuth, impersonateURL string, transport http.RoundTripper) (*impersonation, error) {
	base, err := cloud.ParseURL(EnvOAuthURL, o.URL, "https://oauth.example.com/auth")
	if err != nil {
		return nil, err
	}
	switch {
	case o.ClientID == "" || o.ClientSecret == nil:
		return nil, errNoCredentials
	case o.UserEmail == "":
		return nil, fmt.Errorf("no %s configured: OAuth needs the email address of the user to act for", EnvUserEmail)
	}
	return &impersonation{
		OAuth: o, tokenURL: base + tokenPath, impersonateURL: impersonateURL, turn: make(chan struct{}, 1),
		http: &http.Client{
			Transport:     transport,
			Timeout:       DefaultTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// String has no secret.
func (i *impersonation) String() string { return "OAuth as " + i.UserEmail }

// GoString is as String.
func (i *impersonation) GoString() string { return i.String() }

// Authorize adds the user's token.
func (i *impersonation) Authorize(ctx context.Context, r *http.Request) ([]string, error) {
	token, err := i.token(ctx)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return []string{token}, nil
}

// Rejected forgets the token of a request, unless it has been replaced already.
func (i *impersonation) Rejected(r *http.Request) bool {
	i.turn <- struct{}{}
	defer func() { <-i.turn }()
	if r.Header.Get("Authorization") == "Bearer "+i.now.token {
		i.now, i.next = proof{}, time.Time{}
	}
	return true
}

// token returns the one that is kept, or another one. While a new one cannot be
// had, the old one is used until its end.
func (i *impersonation) token(ctx context.Context) (string, error) {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	began := time.Now()
	works := i.now.token != "" && began.Before(i.now.end)
	if works && (began.Before(i.now.renew) || began.Before(i.next)) {
		return i.now.token, nil
	}
	fresh, err := i.impersonate(ctx, began)
	if err != nil {
		i.next = time.Now().Add(renewPause)
		if works {
			return i.now.token, nil
		}
		return "", err
	}
	i.now = fresh
	return fresh.token, nil
}

// grant is the answer to all three steps.
type grant struct {
	AccessToken string  `json:"access_token"`
	ExpiresIn   float64 `json:"expires_in"` // seconds
}

func (i *impersonation) impersonate(ctx context.Context, began time.Time) (proof, error) {
	secret := i.ClientSecret.Value()
	account, err := i.ask(ctx, i.tokenURL, form(url.Values{
		"grant_type": {"client_credentials"}, "client_id": {i.ClientID}, "client_secret": {secret},
	}), "", secret)
	if err != nil {
		return proof{}, fmt.Errorf("get token of service account: %w", err)
	}
	ticket, err := i.ask(ctx, i.tokenURL, form(url.Values{"grant_type": {ticketGrant}, "audience": {tokenAudience}}), account.AccessToken, secret)
	if err != nil {
		return proof{}, fmt.Errorf("get ticket for impersonation: %w", err)
	}
	body, err := json.Marshal(map[string]string{"user_email": i.UserEmail, "subject_token": account.AccessToken})
	if err != nil {
		return proof{}, err
	}
	user, err := i.ask(ctx, i.impersonateURL, content{"application/json", body}, ticket.AccessToken, secret, account.AccessToken)
	if err != nil {
		return proof{}, fmt.Errorf("act for %s: %w", i.UserEmail, err)
	}
	lifetime := defaultLifetime
	if user.ExpiresIn > 0 {
		lifetime = time.Duration(min(user.ExpiresIn, (24*time.Hour).Seconds()) * float64(time.Second))
	}
	return proof{user.AccessToken, began.Add(lifetime - min(renewBefore, lifetime/3)), began.Add(lifetime)}, nil
}

// content is a body to send.
type content struct {
	is   string
	body []byte
}

func form(v url.Values) content {
	return content{"application/x-www-form-urlencoded", []byte(v.Encode())}
}

// ask does one step. No error has one of the secrets.
func (i *impersonation) ask(ctx context.Context, address string, c content, bearer string, secrets ...string) (grant, error) {
	failed := &cloud.Error{Method: http.MethodPost, Path: address}
	if u, err := url.Parse(address); err == nil {
		failed.Path = u.Path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(c.body))
	if err != nil {
		return grant{}, err
	}
	req.Header.Set("Content-Type", c.is)
	req.Header.Set("Accept", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := i.http.Do(req)
	if err != nil {
		return grant{}, err // an address, and what happened
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenBody))
	failed.Status = resp.StatusCode
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		for _, s := range secrets {
			secrets = append(secrets, url.QueryEscape(s))
		}
		explain(failed, []byte(cloud.Hide(string(body), append(secrets, bearer)...)))
		return grant{}, failed
	}
	var g grant
	if err = cmp.Or(err, json.Unmarshal(body, &g)); err != nil {
		// The error of a decoder quotes what it reads.
		return grant{}, fmt.Errorf("POST %s: the answer is not a token", failed.Path)
	}
	if g.AccessToken == "" || cloud.HeaderSafe(g.AccessToken) != nil {
		return grant{}, fmt.Errorf("POST %s: the answer has no usable token", failed.Path)
	}
	return g, nil
}
