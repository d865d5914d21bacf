package cloudsigma

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"fairlead.io/sandbox/simulator"
)

const (
	tokenPath       = "/realms/cloudsigma/protocol/openid-connect/token"
	impersonatePath = "/service_provider/api/v1/user/impersonate"
	ticketGrant     = "urn:ietf:params:oauth:grant-type:uma-ticket"
)

// session is a token that somebody has got.
type session struct {
	is   string // account, ticket or user
	user *User
	end  time.Time
}

// EndSessions makes all tokens that were got by OAuth invalid.
func (s *Simulator) EndSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Owns says whether a request has the credentials of the user.
func (s *Simulator) Owns(r *http.Request) bool {
	if _, password, is := r.BasicAuth(); is {
		return password == s.options.Token
	}
	return bearer(r) == s.options.Token
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// authenticate says who asks. A token of an impersonated user is his on the direct
// host only: on the other one it is the service account's own.
func (s *Simulator) authenticate(r *http.Request) (*User, error) {
	if email, password, is := r.BasicAuth(); is {
		for u := range s.users.All() {
			if u.Email == email && u.password == password && u != s.service {
				return u, nil
			}
		}
		return nil, unauthenticated("Wrong email or password")
	}
	token := bearer(r)
	if token == "" {
		return nil, unauthenticated("Authentication credentials were not provided")
	}
	if token == s.options.Token {
		return s.user, nil
	}
	got, known := s.sessions[token]
	switch {
	case !known || s.Now().After(got.end) || got.is == "ticket":
		return nil, unauthenticated("Invalid or expired token")
	case got.is == "user" && !direct(r.Host):
		return s.service, nil
	}
	return got.user, nil
}

// direct says whether a host serves impersonated users. One without a name of its
// own, as in the sandbox, does.
func direct(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || strings.HasPrefix(host, "direct.")
}

// grant makes a token.
func (s *Simulator) grant(is string, user *User, lifetime time.Duration) string {
	token := is + "-" + s.uuid()
	s.sessions[token] = session{is, user, s.Now().Add(lifetime)}
	return token
}

// oauthError is in Keycloak's form.
func oauthError(status int, is, description string) simulator.Answer {
	return simulator.Answer{Status: status, Body: map[string]string{"error": is, "error_description": description}}
}

// giveToken is Keycloak: a token for the client's own account, or a ticket.
func (s *Simulator) giveToken(r *http.Request) simulator.Answer {
	if r.Method != http.MethodPost {
		return oauthError(http.StatusMethodNotAllowed, "invalid_request", "Use POST")
	}
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return oauthError(http.StatusBadRequest, "invalid_request", "The form is broken")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const lifetime = 5 * time.Minute
	var token string
	switch form.Get("grant_type") {
	case "client_credentials":
		if form.Get("client_id") != s.options.ClientID || form.Get("client_secret") != s.options.Token {
			return oauthError(http.StatusUnauthorized, "unauthorized_client", "Invalid client or Invalid client credentials")
		}
		token = s.grant("account", s.service, lifetime)
	case ticketGrant:
		got := s.sessions[bearer(r)]
		if got.is != "account" || s.Now().After(got.end) {
			return oauthError(http.StatusUnauthorized, "invalid_grant", "Invalid bearer token")
		}
		if form.Get("audience") != "service_provider_api" {
			return oauthError(http.StatusBadRequest, "invalid_resource", "Unknown audience")
		}
		token = s.grant("ticket", s.service, lifetime)
	default:
		return oauthError(http.StatusBadRequest, "unsupported_grant_type", "Unsupported grant_type")
	}
	return simulator.Answer{Status: http.StatusOK, Body: map[string]any{"access_token": token, "expires_in": int(lifetime.Seconds()), "token_type": "Bearer"}}
}

// impersonate gives the owner of a ticket the token of a user.
func (s *Simulator) impersonate(r *http.Request) simulator.Answer {
	var q struct {
		Email   string `json:"user_email"`
		Subject string `json:"subject_token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost || !direct(r.Host) {
		return simulator.Answer{Status: http.StatusNotFound, Body: simulator.HTML("<html><body><h1>Not Found</h1></body></html>")}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(status int, detail string) simulator.Answer {
		return simulator.Answer{Status: status, Body: map[string]string{"detail": detail}}
	}
	if got := s.sessions[bearer(r)]; got.is != "ticket" || s.Now().After(got.end) {
		return refuse(http.StatusUnauthorized, "Invalid ticket")
	}
	if got := s.sessions[q.Subject]; got.is != "account" || s.Now().After(got.end) {
		return refuse(http.StatusBadRequest, "Invalid subject token")
	}
	for u := range s.users.All() {
		if u.Email != q.Email || u == s.service {
			continue
		}
		lifetime := time.Duration(s.knobs.TokenLifetime)
		answer := map[string]any{"expires_in": int(lifetime.Seconds()), "token_type": "Bearer"}
		if lifetime == 0 {
			lifetime = defaultTokenLifetime
		}
		answer["access_token"] = s.grant("user", u, lifetime)
		return simulator.Answer{Status: http.StatusOK, Body: answer}
	}
	return refuse(http.StatusForbidden, "No such user")
}
