// Package gossipkey has the key by which the agents recognise each other: 32
// random bytes in a Secret. The controller creates it, and the agents read it.
package gossipkey

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// Secret is the name of the Secret.
	Secret = "fairlead-gossip"
	// field of the Secret that has the key.
	field = "key"
	size  = 32
	retry = time.Second
)

// Ensure makes the key if it is not there: it fills in the Secret, or makes that
// as well.
func Ensure(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	secrets := kube.CoreV1().Secrets(namespace)
	s, err := secrets.Get(ctx, Secret, metav1.GetOptions{})
	switch {
	case err == nil && len(s.Data[field]) > 0:
		return nil
	case err == nil:
		s.Data = map[string][]byte{field: key}
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Secret},
			Data:       map[string][]byte{field: key},
		}, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil // somebody else was faster
	}
	return err
}

// Get reads the key, and waits for it if it is not there: the controller will
// make it, unless the caller itself may.
func Get(ctx context.Context, kube kubernetes.Interface, namespace string, log *slog.Logger) ([]byte, error) {
	for logged := false; ; {
		s, err := kube.CoreV1().Secrets(namespace).Get(ctx, Secret, metav1.GetOptions{})
		switch {
		case err == nil && len(s.Data[field]) == size:
			return s.Data[field], nil
		case err == nil && len(s.Data[field]) > 0:
			return nil, fmt.Errorf("secret %s/%s: field %q has %d bytes, must have %d; remove the field to have it recreated", namespace, Secret, field, len(s.Data[field]), size)
		case err == nil || apierrors.IsNotFound(err):
			if err := Ensure(ctx, kube, namespace); err == nil {
				continue
			}
		}
		if !logged {
			log.Info("waiting for the controller to create the gossip key", "secret", namespace+"/"+Secret, "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retry):
		}
	}
}
