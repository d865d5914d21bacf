package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
)

// CloudSigma is an account in one region of CloudSigma.
type CloudSigma struct {
	client *cloudsigma.Client
	region string
}

var _ Cloud = (*CloudSigma)(nil)

// NewCloudSigma makes it from a client of the region.
func NewCloudSigma(c *cloudsigma.Client, region string) *CloudSigma {
	return &CloudSigma{c, strings.ToLower(region)}
}

// Name is how the configuration calls it.
func (*CloudSigma) Name() string { return "cloudsigma" }

// Title is how sentences call it.
func (*CloudSigma) Title() string { return "CloudSigma" }

// ProviderID names a server.
func (*CloudSigma) ProviderID(id string) string { return cloudsigma.ProviderID(id) }

// ServerID reads a providerID.
func (*CloudSigma) ServerID(providerID string) (string, error) {
	return cloudsigma.ServerID(providerID)
}

// Find returns servers of the list that is shared with the addresses of Services.
func (c *CloudSigma) Find(ctx context.Context, age time.Duration, match func(id, name string) bool) ([]Server, error) {
	all, err := c.client.Servers.Within(ctx, age)
	if err != nil {
		return nil, err
	}
	var found []Server
	for i := range all {
		if !match(all[i].UUID, all[i].Name) {
			continue
		}
		s, err := c.server(ctx, &all[i], age)
		if err != nil {
			return nil, err
		}
		found = append(found, *s)
	}
	return found, nil
}

// Get asks for one server by itself.
func (c *CloudSigma) Get(ctx context.Context, id string) (*Server, error) {
	s, err := c.client.Servers.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.server(ctx, s, 0)
}

// server lists the addresses of a server's cards, without those of Services: they
// have tags.
func (c *CloudSigma) server(ctx context.Context, s *cloudsigma.Server, age time.Duration) (*Server, error) {
	tags, err := c.client.Tags.Within(ctx, age)
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	serves := map[string]bool{}
	for i := range tags {
		if _, cluster := compat.ClusterOf(tags[i].Name); cluster || compat.IsServiceTag(tags[i].Name) {
			for _, resource := range tags[i].Resources {
				serves[resource] = true
			}
		}
	}
	out := &Server{
		ID: s.UUID, Name: s.Name, Stopped: s.Status == cloudsigma.Stopped || s.Status == cloudsigma.Paused,
		Type: fmt.Sprintf("cpu-%d-mem-%d", s.CPU, s.Mem>>20), Zone: c.region, Region: c.region,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.Name}},
	}
	seen := map[netip.Addr]bool{}
	for i := range s.NICs {
		addresses := s.NICs[i].Runtime
		for _, conf := range []*cloudsigma.IPConf{s.NICs[i].V4, s.NICs[i].V6} {
			if conf != nil && conf.Conf == cloudsigma.Static && conf.Addr.IsValid() {
				addresses = append(addresses[:len(addresses):len(addresses)], conf.Addr)
			}
		}
		for _, a := range addresses {
			if seen[a] || serves[a.String()] && &s.NICs[i] != s.PublicNIC() {
				continue
			}
			seen[a] = true
			of := corev1.NodeExternalIP
			if a.IsPrivate() {
				of = corev1.NodeInternalIP
			}
			out.Addresses = append(out.Addresses, corev1.NodeAddress{Type: of, Address: a.String()})
		}
	}
	return out, nil
}
