package cloudscale

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Token gives access to a project. It is never written anywhere.
type Token struct {
	file string

	mu    sync.Mutex
	value string // what the file had, or what was given
}

// NewToken is a token that does not change.
func NewToken(value string) (*Token, error) {
	t := &Token{value: strings.TrimSpace(value)}
	return t, checkToken(t.value)
}

// TokenFile is a token in a file. It may be replaced at any time.
func TokenFile(path string) (*Token, error) {
	t := &Token{file: path}
	value, err := t.read()
	if err != nil {
		return nil, err
	}
	t.value = value
	return t, nil
}

// current reads the file each time: a file in memory costs nothing beside a call
// of the API. While it cannot be read, the last one is used.
func (t *Token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != "" {
		if value, err := t.read(); err == nil {
			t.value = value
		}
	}
	return t.value
}

func (t *Token) read() (string, error) {
	data, err := os.ReadFile(t.file)
	if err != nil {
		return "", fmt.Errorf("read access token: %w", err)
	}
	value := strings.TrimSpace(string(data))
	if err := checkToken(value); err != nil {
		return "", fmt.Errorf("%s: %w", t.file, err)
	}
	return value, nil
}

// String is the token as it may be seen: its first four characters.
func (t *Token) String() string { return mask(t.current()) }

// GoString is as String: %#v must not tell more.
func (t *Token) GoString() string { return t.String() }

// mask tells enough of a token to know which one it is.
func mask(token string) string {
	if len(token) < 4 {
		return ""
	}
	return token[:4] + strings.Repeat("*", len(token)-4)
}

// checkToken refuses what cannot be sent as a header, for whatever complains
// about that later might quote it.
func checkToken(token string) error {
	if token == "" {
		return errors.New("the access token is empty")
	}
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return errors.New("the access token has characters that no token has")
		}
	}
	return nil
}
