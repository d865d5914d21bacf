package cloud

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Secret is a token or a password. It is never logged, nor part of an error.
type Secret struct {
	name  string // in errors: "access token"
	file  string // empty: it does not change
	check func(string) error

	mu    sync.Mutex
	value string // what the file had last, or what was given
}

// NewSecret is a secret that does not change. check, unless it is nil, refuses
// values that cannot be sent; its error must not quote the value.
func NewSecret(name, value string, check func(string) error) (*Secret, error) {
	s := &Secret{name: name, check: check}
	var err error
	s.value, err = s.trimmed(value)
	return s, err
}

// SecretFile is a secret in a file. It may be replaced at any time.
func SecretFile(name, path string, check func(string) error) (*Secret, error) {
	s := &Secret{name: name, file: path, check: check}
	value, err := s.read()
	if err != nil {
		return nil, err
	}
	s.value = value
	return s, nil
}

// SecretFromEnv is the secret in the environment variable env or, if that is
// empty, in the file that the variable env_FILE names.
func SecretFromEnv(getenv func(string) string, env, name string, check func(string) error) (*Secret, error) {
	switch value, file := getenv(env), getenv(env+"_FILE"); {
	case value != "":
		return NewSecret(name, value, check)
	case file != "":
		return SecretFile(name, file, check)
	default:
		return nil, fmt.Errorf("no %s configured", env)
	}
}

// Value reads the file each time: a file in memory costs nothing beside a call
// of the API. While it cannot be read, the last value is used.
func (s *Secret) Value() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != "" {
		if value, err := s.read(); err == nil {
			s.value = value
		}
	}
	return s.value
}

func (s *Secret) read() (string, error) {
	data, err := os.ReadFile(s.file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", s.name, err)
	}
	value, err := s.trimmed(string(data))
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.file, err)
	}
	return value, nil
}

func (s *Secret) trimmed(value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return "", fmt.Errorf("the %s is empty", s.name)
	}
	if s.check != nil {
		if err := s.check(value); err != nil {
			return "", fmt.Errorf("the %s %w", s.name, err)
		}
	}
	return value, nil
}

// String is the secret as it may be seen: the first four characters of a long one.
func (s *Secret) String() string { return mask(s.Value()) }

// GoString is as String: %#v must not show more.
func (s *Secret) GoString() string { return s.String() }

// minShown is the length from which on four characters of a secret give nothing
// away. Passwords are shorter.
const minShown = 20

// mask shows enough of a token to know which one it is, and nothing of a password.
func mask(secret string) string {
	if len(secret) < minShown {
		return hidden
	}
	return secret[:4] + strings.Repeat("*", len(secret)-4)
}

const hidden = "****"

// Hide replaces secrets in a text that somebody else has written.
func Hide(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, hidden)
		}
	}
	return text
}

// HeaderSafe refuses what cannot be sent as a part of a header: whatever
// complains about that later might quote it.
func HeaderSafe(secret string) error {
	for _, r := range secret {
		if r <= ' ' || r > '~' {
			return errors.New("has characters that are invalid in a token")
		}
	}
	return nil
}
