package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/lb"
)

// moon is a cloud with a providerID of its own.
type moon []Server

func (moon) Name() string                { return "moon" }
func (moon) Title() string               { return "The Moon" }
func (moon) ProviderID(id string) string { return "moon:///" + id }

func (moon) Taints() []string { return nil }

func (moon) ServerID(providerID string) (string, error) {
	if id, is := strings.CutPrefix(providerID, "moon:///"); is {
		return id, nil
	}
	return "", errors.New("not on the moon")
}

func (m moon) Find(_ context.Context, _ time.Duration, match func(id, name string) bool) ([]Server, error) {
	var found []Server
	for _, s := range m {
		if match(s.ID, s.Name) {
			found = append(found, s)
		}
	}
	return found, nil
}

func (m moon) Get(context.Context, string) (*Server, error) { return nil, &cloud.Error{Status: 404} }

// Sentences name the cloud, and are like its providerIDs.
func TestAnotherCloud(t *testing.T) {
	of := instances{moon{{ID: "1", Name: "crater"}, {ID: "2", Name: "twin"}, {ID: "3", Name: "twin"}}}
	if m, err := of.InstanceMetadata(t.Context(), newNode("crater", "")); err != nil || m.ProviderID != "moon:///1" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, test := range []struct {
		name, providerID string
		code             lb.Code
		says             string
	}{
		{"mars", "", NodeNotFound, `The Moon has no server named "mars"`},
		{"twin", "", NodeAmbiguous, "(moon:///2, moon:///3, …)"},
		{"crater", "mars:///1", NodeForeign, "providerID mars:///1 does not have the form moon:///UUID. If the node is a server of The Moon,"},
	} {
		_, err := of.InstanceMetadata(t.Context(), newNode(test.name, test.providerID))
		r, is := errors.AsType[*refusal](err)
		if !is || r.reason.Code != test.code || !strings.Contains(r.reason.Text, test.says) || strings.Contains(r.reason.Text, "cloudscale") {
			t.Errorf("node %s: %v", test.name, err)
		}
	}
}
