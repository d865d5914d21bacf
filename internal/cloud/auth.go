package cloud

import (
	"context"
	"net/http"
	"strings"
)

// Auth authenticates the client to a cloud.
type Auth interface {
	// Authorize adds the proof to a request that is about to be sent. It returns
	// the secrets in it, which are masked in whatever the cloud answers. It may
	// call another server for a token; an error means that the request is not sent.
	Authorize(ctx context.Context, r *http.Request) (secrets []string, err error)
}

// Renewer is an Auth whose proof ends, and can be replaced before it should.
type Renewer interface {
	Auth
	// Rejected says that the cloud has answered 401 to a request that Authorize has
	// completed. True: the next one gets another proof, so the call is worth one more
	// attempt.
	Rejected(r *http.Request) bool
}

// Basic is authentication by a user's name and password.
type Basic struct {
	User     string
	Password *Secret
}

// Authorize adds both.
func (b Basic) Authorize(_ context.Context, r *http.Request) ([]string, error) {
	password := b.Password.Value()
	r.SetBasicAuth(b.User, password)
	_, encoded, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return []string{encoded, password}, nil
}

// Bearer is authentication by an access token.
type Bearer struct{ Token *Secret }

// tokenName is what an access token is called in errors.
const tokenName = "access token"

// NewToken is an access token that does not change.
func NewToken(token string) (*Secret, error) { return NewSecret(tokenName, token, HeaderSafe) }

// TokenFromEnv is the access token in the environment variable env, or in the
// file that the variable env_FILE names.
func TokenFromEnv(getenv func(string) string, env string) (*Secret, error) {
	return SecretFromEnv(getenv, env, tokenName, HeaderSafe)
}

// Authorize adds the token as it is now.
func (b Bearer) Authorize(_ context.Context, r *http.Request) ([]string, error) {
	token := b.Token.Value()
	r.Header.Set("Authorization", "Bearer "+token)
	return []string{token}, nil
}
