package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// newReviewClient makes a client for reviews alone, so that a flood of them takes
// nothing from what this process has to write.
func newReviewClient(c *rest.Config) (kubernetes.Interface, error) {
	own := rest.CopyConfig(c)
	own.RateLimiter, own.QPS, own.Burst = nil, 50, 100
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make client for token reviews: %w", err)
	}
	return client, nil
}

// authorised lets only clients pass whose bearer token the API server knows and
// allows to get the requested path (the ClusterRoles fairlead-metrics-reader and
// fairlead-page-reader).
// controller-runtime has the same in its package filters, which would double our
// dependencies with those of the API server.
func authorised(client kubernetes.Interface, next http.Handler) http.Handler {
	reviews := newReviews(func(ctx context.Context, path, token string) answer { return review(ctx, client, path, token) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		from, _ := netip.ParseAddrPort(r.RemoteAddr)
		if a := reviews.decide(r.Context(), from.Addr(), r.URL.Path, token); a.code != http.StatusOK {
			http.Error(w, a.text, a.code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func review(ctx context.Context, client kubernetes.Interface, path, token string) answer {
	who, err := client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return answer{http.StatusServiceUnavailable, "cannot authenticate the client: the API server does not answer"}
	}
	if !who.Status.Authenticated {
		return answer{http.StatusUnauthorized, "the API server rejected this token"}
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.Status.User.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}, metav1.CreateOptions{})
	if err != nil {
		return answer{http.StatusServiceUnavailable, "cannot authorize the client: the API server does not answer"}
	}
	if !may.Status.Allowed {
		return answer{http.StatusForbidden, fmt.Sprintf("%s may not get %s", who.Status.User.Username, path)}
	}
	return answer{code: http.StatusOK}
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
