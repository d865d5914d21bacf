package cloud

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ProviderID names a server in the spec of its Node. scheme is the cloud's.
func ProviderID(scheme, server string) string { return scheme + "://" + server }

// ServerID returns the UUID in a providerID of a cloud whose servers have one, in
// the form in which clouds write it.
func ServerID(scheme, providerID string) (string, error) {
	begin, id, ok := strings.Cut(strings.TrimSpace(providerID), "://")
	switch {
	case !ok:
		return "", fmt.Errorf("providerID %q has no \"://\"", providerID)
	case begin != scheme:
		return "", fmt.Errorf("providerID %q does not begin with %s://", providerID, scheme)
	case id == "":
		return "", fmt.Errorf("providerID %q names no server", providerID)
	}
	parsed, err := uuid.Parse(strings.TrimSpace(id))
	if err != nil {
		return "", fmt.Errorf("providerID %q names no server by a UUID", providerID)
	}
	return parsed.String(), nil
}
