package notary

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// Secret is the name of the Secret.
	Secret = "fairlead-notes"
	// Its fields: the key, and whether all that was there before has notes.
	fieldKey  = "key"
	fieldDone = "imported"
	size      = 32
)

// Open reads the key, and makes it if there is none: then it is the first start. It
// stays the first start until Close, also of other controllers after this one.
func (n *Notary) Open(ctx context.Context, secrets typedcorev1.SecretInterface) error {
	s, err := secrets.Get(ctx, Secret, metav1.GetOptions{})
	switch {
	case err == nil && len(s.Data[fieldKey]) == 0:
		s.Data = map[string][]byte{fieldKey: newKey()}
		s, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		s, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: Secret},
			Data:       map[string][]byte{fieldKey: newKey()},
		}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) { // manifests have it, so that nobody needs the right
			return fmt.Errorf("secret %s, for the key of the notes on Services, is missing; install it again with the manifests or the chart: %w", Secret, err)
		}
	}
	if err != nil {
		return fmt.Errorf("key of the notes on Services, Secret %s: %w", Secret, err)
	}
	return n.take(s)
}

// Read reads the key if there is one that may be read, and makes none.
func (n *Notary) Read(ctx context.Context, secrets typedcorev1.SecretInterface) error {
	s, err := secrets.Get(ctx, Secret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), err == nil && len(s.Data[fieldKey]) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("key of the notes on Services, Secret %s: %w", Secret, err)
	}
	return n.take(s)
}

// Close ends the first start: from now on, only notes count.
func (n *Notary) Close(ctx context.Context, secrets typedcorev1.SecretInterface) error {
	if !n.First() {
		return nil
	}
	s, err := secrets.Get(ctx, Secret, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("finish the import, Secret %s: %w", Secret, err)
	}
	if string(s.Data[fieldKey]) != string(n.current()) {
		return fmt.Errorf("finish the import: Secret %s has another key by now", Secret)
	}
	s.Data[fieldDone] = []byte("true")
	if _, err := secrets.Update(ctx, s, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("finish the import, Secret %s: %w", Secret, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.first = false
	return nil
}

func (n *Notary) take(s *corev1.Secret) error {
	key := s.Data[fieldKey]
	if len(key) != size {
		return fmt.Errorf("secret %s: field %q has %d bytes, must have %d; remove the Secret's data to have a new key made", Secret, fieldKey, len(key), size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.key, n.first = key, string(s.Data[fieldDone]) != "true"
	return nil
}

func newKey() []byte {
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	return key
}
