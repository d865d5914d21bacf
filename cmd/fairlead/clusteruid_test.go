package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The UID of the cluster is waited for, unless it may not be read.
func TestClusterUID(t *testing.T) {
	away := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, metav1.NamespaceSystem, nil)
	for name, test := range map[string]struct {
		answers []error
		want    string
		fails   error
	}{
		"read":           {[]error{nil}, "5ce1", nil},
		"away for a bit": {[]error{away, away, nil}, "5ce1", nil},
		"forbidden":      {[]error{away, forbidden}, "", nil},
		"away":           {nil, "", away},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				asked := 0
				got, err := clusterUID(ctx, func(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
					if asked++; asked > len(test.answers) {
						return nil, away
					}
					return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "5ce1"}}, test.answers[asked-1]
				}, slog.New(slog.DiscardHandler))
				if got != test.want || !errors.Is(err, test.fails) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}
