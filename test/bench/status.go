package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"fairlead.io/sandbox"
)

// statusCommand: how long a person waits for "status", with all Services announced, and with
// endpoints.
func statusCommand(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	progress("  creating %d Services", s.n)
	if err := c.create(ctx, s.n, inFlight, nil); err != nil {
		return nil, err
	}
	if err := c.giveAll(ctx, s); err != nil {
		return nil, err
	}
	agents, err := c.announceAll(ctx, s.n)
	if err != nil {
		return nil, err
	}
	if err := c.endpointAll(ctx, s.n, agents[0].Name); err != nil {
		return nil, err
	}
	took := make([]float64, 0, s.rounds)
	for range s.rounds {
		began := time.Now()
		ok, err := servicesOK(ctx, s.binary, c.api.Kubeconfig)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
		if ok != s.n {
			return nil, fmt.Errorf("status counts %d Services that are well, want %d", ok, s.n)
		}
	}
	return []Row{info(fmt.Sprintf("of %d Services with agents and endpoints, start to end", s.n), median(took), "s").atMost(2)}, nil
}

// endpointAll gives each Service an endpoint on a node.
func (c *cluster) endpointAll(ctx context.Context, n int, node string) error {
	return concurrently(ctx, n, inFlight, func(i int) error {
		name := fmt.Sprintf("web-%05d", i)
		_, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.244.%d.%d", i>>8&255, i&255)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		}, metav1.CreateOptions{})
		return err
	})
}

// servicesOK runs the command, and returns how many Services it finds well. There is no pod of a
// controller, so it exits with 1.
func servicesOK(ctx context.Context, binary, kubeconfig string) (int, error) {
	out, err := exec.CommandContext(ctx, binary, "status", "-o", "json", "--kubeconfig", kubeconfig).Output()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != 1) {
		return 0, fmt.Errorf("status: %w", err)
	}
	var status struct {
		Services map[string]int `json:"services"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, fmt.Errorf("status: %w: %s", err, out)
	}
	return status.Services["ok"], nil
}
