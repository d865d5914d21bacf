package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sightings is a watch that notes when each Service was first seen with an
// address. It sees what any client sees: what the API server has answered.
type sightings struct {
	cluster *cluster
	watch   watch.Interface
	has     func(*corev1.Service) bool
}

// look begins to watch. Services that have an address already are not noted.
func (c *cluster) look(ctx context.Context) (*sightings, error) {
	s := &sightings{cluster: c, has: published}
	_, err := s.begin(ctx, metav1.ListOptions{Limit: 1})
	return s, err
}

func (s *sightings) begin(ctx context.Context, o metav1.ListOptions) (*corev1.ServiceList, error) {
	api := s.cluster.kube.CoreV1().Services(namespace)
	list, err := api.List(ctx, o)
	if err != nil {
		return nil, err
	}
	s.watch, err = api.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	return list, err
}

// published says whether a Service has an address; given, whether kube-vip can
// announce it.
func published(s *corev1.Service) bool { return len(s.Status.LoadBalancer.Ingress) > 0 }
func given(s *corev1.Service) bool     { return s.Spec.LoadBalancerIP != "" }

// first returns when each of the first n Services was seen, and ends the watch.
func (s *sightings) first(ctx context.Context, n int) (map[string]time.Time, error) {
	defer func() { s.watch.Stop() }()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	at := make(map[string]time.Time, n)
	note := func(service *corev1.Service) {
		if s.has(service) && at[service.Name].IsZero() {
			at[service.Name] = time.Now()
		}
	}
	for len(at) < n {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit.C:
			return nil, fmt.Errorf("only %d of %d Services have an address after %s", len(at), n, patience)
		case e, open := <-s.watch.ResultChan():
			service, is := e.Object.(*corev1.Service)
			switch {
			case !open: // the API server does so if much happens at once
				list, err := s.begin(ctx, metav1.ListOptions{})
				if err != nil {
					return nil, err
				}
				for i := range list.Items {
					note(&list.Items[i])
				}
			case !is:
				return nil, fmt.Errorf("watch: %v", e.Object)
			default:
				note(service)
			}
		}
	}
	return at, nil
}

// last of the times.
func last(at map[string]time.Time) (latest time.Time) {
	for _, t := range at {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}
