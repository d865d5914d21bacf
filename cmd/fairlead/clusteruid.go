package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// uidRetry is between two attempts to read the UID of the cluster.
const uidRetry = time.Second

// clusterUID is the UID of the namespace kube-system, by which a cluster can be told
// from all others. It waits for the API server. Without the right to read it, it is
// "": then what has the tag of any cluster that is not this one's name is not ours.
func clusterUID(ctx context.Context, get func(context.Context, string, metav1.GetOptions) (*corev1.Namespace, error), log *slog.Logger) (string, error) {
	for first := true; ; first = false {
		namespace, err := get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		switch {
		case err == nil:
			return string(namespace.UID), nil
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			log.Warn("this cluster is known in the cloud only by its name, if it has one", "error", err)
			return "", nil
		case first:
			log.Warn("waiting for the API server", "error", err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
		case <-time.After(uidRetry):
		}
	}
}
