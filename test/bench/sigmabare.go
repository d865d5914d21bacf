package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// bareCloud asks CloudSigma without looking at what it does.
type bareCloud struct{ url, token string }

type (
	sigmaObject = map[string]any
	sigmaList   struct {
		Objects []sigmaObject `json:"objects"`
	}
)

func (b *bareCloud) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, b.url+"/api/2.0/"+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s %s", method, path, response.Status, raw)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	return err
}

// attach has a server have cards for addresses: read, write, read.
func (b *bareCloud) attach(ctx context.Context, server string, addresses []netip.Addr) error {
	var cards []any
	for _, addr := range addresses {
		cards = append(cards, sigmaObject{"ip_v4_conf": sigmaObject{"conf": "static", "ip": sigmaObject{"uuid": addr.String()}}})
	}
	if err := b.change(ctx, server, func(now []any) []any { return append(now, cards...) }); err != nil {
		return err
	}
	return b.do(ctx, http.MethodGet, "servers/"+server+"/", nil, &sigmaObject{})
}

// change reads and writes the cards of a server.
func (b *bareCloud) change(ctx context.Context, server string, edit func([]any) []any) error {
	var s sigmaObject
	if err := b.do(ctx, http.MethodGet, "servers/"+server+"/", nil, &s); err != nil {
		return err
	}
	for _, field := range []string{"resource_uri", "runtime", "status", "uuid", "owner", "permissions", "mounted_on", "grantees"} {
		delete(s, field)
	}
	cards, _ := s["nics"].([]any)
	s["nics"] = edit(cards)
	return b.do(ctx, http.MethodPut, "servers/"+server+"/", s, nil)
}

// both does two things at the same time.
func both(one, other func() error) error {
	var first, second error
	var all sync.WaitGroup
	all.Go(func() { first = one() })
	all.Go(func() { second = other() })
	all.Wait()
	return errors.Join(first, second)
}

// serveBare serves all Services in the order that the controller has to follow:
// finalizer, claim, list, card, read, status. It knows all of them before it begins, so
// that it needs one call where the controller may need several.
func (a *account) serveBare(ctx context.Context) error {
	b := &bareCloud{a.url, a.Token()}
	services := a.cluster.kube.CoreV1().Services(namespace)
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	err = concurrently(ctx, len(list.Items), sigmaInFlight, func(i int) error {
		patch := fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, lb.CleanupFinalizer)
		_, err := services.Patch(ctx, list.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	addresses := make([]string, len(list.Items))
	for i := range addresses {
		addresses[i] = sigmaAddress(i).String()
	}
	if err := b.claim(ctx, list.Items, addresses); err != nil {
		return err
	}
	nodes := []string{"node-1", "node-2", "node-3"}
	err = concurrently(ctx, len(nodes), len(nodes), func(n int) error {
		var its []netip.Addr
		for i := n; i < len(list.Items); i += len(nodes) {
			its = append(its, sigmaAddress(i))
		}
		return b.attach(ctx, a.servers[nodes[n]], its)
	})
	if err != nil {
		return err
	}
	return concurrently(ctx, len(list.Items), sigmaInFlight, func(i int) error {
		patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q,"ipMode":"VIP"}]}}}`, addresses[i])
		_, err := services.Patch(ctx, list.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// leaveBare takes the finalizers off.
func (a *account) leaveBare(ctx context.Context) error {
	services := a.cluster.kube.CoreV1().Services(namespace)
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return concurrently(ctx, len(list.Items), sigmaInFlight, func(i int) error {
		_, err := services.Patch(ctx, list.Items[i].Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
}

// claim tags addresses: those of the cluster first, then all others, then looks at them.
func (b *bareCloud) claim(ctx context.Context, services []corev1.Service, addresses []string) error {
	var tags sigmaList
	if err := b.do(ctx, http.MethodGet, "tags/?limit=0", nil, &tags); err != nil {
		return err
	}
	write := func(name string) error {
		for _, tag := range tags.Objects {
			if tag["name"] == name {
				return b.do(ctx, http.MethodPut, fmt.Sprintf("tags/%s/", tag["uuid"]), sigmaObject{"name": name, "resources": addresses}, nil)
			}
		}
		return fmt.Errorf("no tag %s", name)
	}
	if err := write("cluster:" + sigmaCluster); err != nil {
		return err
	}
	var made []sigmaObject
	for i := range services {
		made = append(made, sigmaObject{"name": "service:" + services[i].Namespace + "-" + services[i].Name, "resources": []string{addresses[i]}})
	}
	err := both(
		func() error { return b.do(ctx, http.MethodPost, "tags/", sigmaObject{"objects": made}, nil) },
		func() error { return write("managed-by:cloudsigma-ccm") },
	)
	if err != nil {
		return err
	}
	return b.do(ctx, http.MethodGet, "tags/?limit=0", nil, &tags)
}
