package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// decisionKept is how long a token's answer is remembered, so that a scrape does
// not cost two calls of the API server each time.
const decisionKept = time.Minute

// authorised lets only clients pass whose bearer token the API server knows and
// allows to get the requested path (the ClusterRole fairlead-metrics-reader).
// controller-runtime has the same in its package filters, which would double our
// dependencies with those of the API server.
func authorised(client kubernetes.Interface, next http.Handler) http.Handler {
	var mu sync.Mutex
	allowedUntil := map[[sha256.Size]byte]time.Time{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		key := sha256.Sum256([]byte(r.URL.Path + "\x00" + token))
		now := time.Now()
		mu.Lock()
		known := now.Before(allowedUntil[key])
		mu.Unlock()
		if !known {
			if code, err := review(r, client, token); err != nil {
				http.Error(w, err.Error(), code)
				return
			}
			mu.Lock()
			clear(allowedUntil) // a handful of scrapers at most
			allowedUntil[key] = now.Add(decisionKept)
			mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

func review(r *http.Request, client kubernetes.Interface, token string) (int, error) {
	who, err := client.AuthenticationV1().TokenReviews().Create(r.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("cannot authenticate the client: the API server does not answer")
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, fmt.Errorf("the API server rejected this token")
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.Status.User.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := client.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: "get"},
		}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("cannot authorize the client: the API server does not answer")
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, fmt.Errorf("%s may not get %s", who.Status.User.Username, r.URL.Path)
	}
	return http.StatusOK, nil
}

// withTLS serves l with a certificate made for this process: it keeps tokens
// from being read on the wire; scrapers do not verify it.
func withTLS(l net.Listener) (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "fairlead"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}), nil
}
