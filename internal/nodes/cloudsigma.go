package nodes

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
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

// Taints are those of Cluster API: its nodes wait for the cloud, too.
func (*CloudSigma) Taints() []string { return []string{"node.cluster.x-k8s.io/uninitialized"} }

// Find returns servers of the list that is shared with the addresses of Services.
func (c *CloudSigma) Find(ctx context.Context, age time.Duration, match func(id, name string) bool) ([]Server, error) {
	before := c.client.Tags.Peek()
	all, err := c.client.Servers.Within(ctx, age)
	if err != nil {
		return nil, err
	}
	read := c.client.Servers.ReadAt()
	if read.IsZero() {
		read = time.Now()
	}
	var found []Server
	var served map[netip.Addr]bool
	for i := range all {
		if !match(all[i].UUID, all[i].Name) {
			continue
		}
		if served == nil {
			if served, err = c.served(ctx, before, read); err != nil {
				return nil, err
			}
		}
		found = append(found, c.server(&all[i], served))
	}
	return found, nil
}

// Get asks for one server by itself.
func (c *CloudSigma) Get(ctx context.Context, id string) (*Server, error) {
	before := c.client.Tags.Peek()
	s, err := c.client.Servers.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	served, err := c.served(ctx, before, time.Now())
	if err != nil {
		return nil, err
	}
	server := c.server(s, served)
	return &server, nil
}

// served are the addresses that Services have, by their tags. An address has its
// tags before it is attached, and until it is detached. So those tags count that
// were there before the servers were read, and those that were there at since or
// later.
func (c *CloudSigma) served(ctx context.Context, before []cloudsigma.Tag, since time.Time) (map[netip.Addr]bool, error) {
	now, err := c.client.Tags.Since(ctx, since, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	out := map[netip.Addr]bool{}
	for _, tag := range slices.Concat(before, now) {
		if !compat.IsServiceTag(tag.Name) {
			continue
		}
		for _, resource := range tag.Resources {
			if addr, err := netip.ParseAddr(resource); err == nil {
				out[addr] = true
			}
		}
	}
	return out, nil
}

// server lists the addresses that the cards of a server have in the guest, without
// those of Services. A static address that was attached while the server runs is not
// in the guest: only that of the first public card is the server's own anyway.
func (c *CloudSigma) server(s *cloudsigma.Server, served map[netip.Addr]bool) Server {
	out := Server{
		ID: s.UUID, Name: s.Name, Stopped: s.Status == cloudsigma.Stopped || s.Status == cloudsigma.Paused,
		Type: fmt.Sprintf("cpu-%d-mem-%d", s.CPU, s.Mem>>20), Zone: c.region, Region: c.region,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.Name}},
		Served:    slices.Collect(maps.Keys(served)),
	}
	public := s.PublicNIC()
	for i := range s.NICs {
		n := &s.NICs[i]
		addresses := slices.Clone(n.Runtime)
		for _, conf := range []*cloudsigma.IPConf{n.V4, n.V6} {
			switch {
			case conf == nil:
			case conf.Conf == cloudsigma.Static && conf.Addr.IsValid():
				if n == public && !slices.Contains(addresses, conf.Addr) {
					addresses = append(addresses, conf.Addr)
				}
			case conf.Conf == cloudsigma.Manual:
				out.Unlisted = true
			}
		}
		out.Unlisted = out.Unlisted || n.VLAN != ""
		for _, a := range addresses {
			if !served[a] {
				out.Addresses = append(out.Addresses, corev1.NodeAddress{Type: typeOf(a.String()), Address: a.String()})
			}
		}
	}
	return out
}
