package nodes

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// cloudscaleScheme is what providerIDs of cloudscale.ch begin with.
const cloudscaleScheme = "cloudscale"

// providerID names a server of cloudscale.ch in a Node's spec.
func providerID(server string) string { return cloudscaleScheme + "://" + server }

// serverOf returns the UUID in a providerID, in the form in which the cloud
// writes it.
func serverOf(providerID string) (string, error) {
	scheme, id, ok := strings.Cut(strings.TrimSpace(providerID), "://")
	switch {
	case !ok:
		return "", fmt.Errorf("providerID %q has no \"://\"", providerID)
	case scheme != cloudscaleScheme:
		return "", fmt.Errorf("providerID %q does not begin with %s://", providerID, cloudscaleScheme)
	case id == "":
		return "", fmt.Errorf("providerID %q names no server", providerID)
	}
	parsed, err := uuid.Parse(strings.TrimSpace(id))
	if err != nil {
		return "", fmt.Errorf("providerID %q names no server by a UUID", providerID)
	}
	return parsed.String(), nil
}
