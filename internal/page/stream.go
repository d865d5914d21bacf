package page

import (
	"encoding/json"
	"net/http"
	"time"
)

const (
	// streamTime is how long a stream lasts. The page then asks again, and whoever
	// serves it checks again who may see it.
	streamTime = 10 * time.Minute
	// pingEvery is how often something is sent although nothing has changed, so that
	// nobody on the way ends the connection.
	pingEvery = 15 * time.Second
	// sendTime is how long a viewer has to take what is sent.
	sendTime = 30 * time.Second
)

// message is one event of the stream.
type message struct {
	// First says that this is everything, and what the viewer has counts no longer.
	First   bool       `json:"first,omitempty"`
	Changes difference `json:"changes"`
}

// serveChanges sends what is shown, then what changes, as server-sent events. A viewer
// that is slow gets fewer and larger differences.
func (p *Page) serveChanges(w http.ResponseWriter, r *http.Request) {
	leave := p.join(r.Context())
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	send := func(data []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTime)) // not every writer can
		if _, err := w.Write(data); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	end := time.After(streamTime)
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	var has rows
	for first := true; ; first = false {
		shown, changed := p.current()
		if d := shown.rows.since(has); len(d) > 0 || first {
			data, err := json.Marshal(message{First: first, Changes: d})
			if err != nil || !send(append(append([]byte("data: "), data...), "\n\n"...)) {
				return
			}
			has = shown.rows
		}
		select {
		case <-changed:
		case <-ping.C:
			if !send([]byte(": still here\n\n")) {
				return
			}
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}
