package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Write is one kind of write that the API server answered: the key of
// [API.WriteCounts].
type Write struct {
	Verb        string // create, update, patch, delete or deletecollection
	Resource    string // plural, without the group: "services"
	Subresource string // "status", or empty
	Namespace   string
	Name        string // empty if the server made it up
	UserAgent   string
	Code        int    // HTTP status: 409 is a conflict
	User        string // who wrote, such as "system:serviceaccount:kube-system:fairlead"
}

// readAudit counts the entries of an audit log. A line still being written is
// left for the next reader.
func readAudit(path string) (map[Write]int, error) {
	counts := make(map[Write]int)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return counts, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return counts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		var event struct {
			Verb      string `json:"verb"`
			UserAgent string `json:"userAgent"`
			User      struct {
				Username string `json:"username"`
			} `json:"user"`
			ObjectRef struct {
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
				Namespace   string `json:"namespace"`
				Name        string `json:"name"`
			} `json:"objectRef"`
			ResponseStatus struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
		}
		// A server that was killed may have left half an event before it.
		line = line[max(0, bytes.LastIndex(line, []byte(`{"kind":"Event"`))):]
		if err := json.Unmarshal(line, &event); err != nil {
			continue
		}
		o := event.ObjectRef
		counts[Write{event.Verb, o.Resource, o.Subresource, o.Namespace, o.Name, event.UserAgent, event.ResponseStatus.Code, event.User.Username}]++
	}
}
