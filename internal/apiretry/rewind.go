package apiretry

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// When etcd is restored from a backup, resourceVersions begin again below those that
// clients know. An API server answers a watch from such a version, which is in its
// future, with nothing until it gets there: what has changed meanwhile is never seen.
// So before a read from a version, the server is asked how far it is. One that is behind
// has been restored: the read is answered with 410 Gone, after which an informer lists
// everything again.

// expired answers r if it reads from a version that the server has not reached; nil
// means that it may go on.
func (t *transport) expired(r *http.Request) *http.Response {
	from, ok := version(r.URL.Query().Get("resourceVersion"))
	if r.Method != http.MethodGet || !ok || from == 0 {
		return nil
	}
	now, ok := t.reached(r)
	if !ok || from <= now {
		return nil
	}
	t.log.Warn("the API server has gone back in time: etcd was restored; reading everything again", "path", r.URL.Path, "known", from, "now", now)
	if t.rewound != nil {
		t.rewound()
	}
	return gone(r)
}

// reached asks for the current version with a list of one object, which the API server
// answers from a quorum. It has the selectors of r, to which rights may be limited.
func (t *transport) reached(r *http.Request) (uint64, bool) {
	ask := r.Clone(r.Context())
	asked, q := r.URL.Query(), ask.URL.Query()
	for key := range q {
		q.Del(key)
	}
	for _, key := range []string{"fieldSelector", "labelSelector"} {
		if v := asked.Get(key); v != "" {
			q.Set(key, v)
		}
	}
	q.Set("limit", "1")
	ask.URL.RawQuery = q.Encode()
	ask.Header.Set("Accept", "application/json")
	resp, err := t.next.RoundTrip(ask)
	if err != nil {
		return 0, false
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct{ Metadata metav1.ListMeta }
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&list) != nil {
		return 0, false
	}
	return version(list.Metadata.ResourceVersion)
}

func version(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// gone is what an API server answers to a read from a version that it has no longer.
func gone(r *http.Request) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: "etcd was restored: this version is of a past that is lost", Reason: metav1.StatusReasonExpired, Code: http.StatusGone,
	}
	body, err := json.Marshal(status)
	if err != nil { // a struct of texts and numbers always marshals
		panic(err)
	}
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
