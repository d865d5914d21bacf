package member

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// bridge writes memberlist's log into ours, at debug level: it reports every
// lost packet, and what matters of that becomes a change of members. Only what
// an operator has to fix is a warning, and that not more often than quiet.
type bridge struct {
	log *slog.Logger

	mu     sync.Mutex
	warned map[string]time.Time
}

// quiet is how long the same warning is not repeated.
const quiet = 10 * time.Minute

var warnings = []struct{ sign, text string }{
	{"ecrypt packet failed", "a host without the gossip key sends messages"},
	{"onflicting address", "two nodes have the same name"},
}

func (b *bridge) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	for _, w := range warnings {
		if bytes.Contains(line, []byte(w.sign)) {
			b.warn(w.text, "memberlist", text)
			return len(line), nil
		}
	}
	b.log.Debug(text)
	return len(line), nil
}

// warn writes a warning, or a debug line if it was written a while ago.
func (b *bridge) warn(text string, args ...any) {
	if b.due(text) {
		b.log.Warn(text, args...)
		return
	}
	b.log.Debug(text, args...)
}

func (b *bridge) due(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if last, ok := b.warned[text]; ok && now.Sub(last) < quiet {
		return false
	}
	if b.warned == nil {
		b.warned = map[string]time.Time{}
	}
	b.warned[text] = now
	return true
}
