package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// Clouds that [Cluster.Cloud] can name: simulators of cloudscale.ch and CloudSigma,
// see the packages of these names.
const (
	Cloudscale = "cloudscale"
	CloudSigma = "cloudsigma"
)

// clouds are all that there are, by the name of their command of this program.
var clouds = map[string]simulator.Cloud{Cloudscale: cloudscale{}, CloudSigma: cloudsigma{}}

// Clouds are the names that [Cluster.Cloud] can have.
func Clouds() []string { return slices.Sorted(maps.Keys(clouds)) }

func checkCloud(name string) error {
	if _, known := clouds[name]; name != "" && !known {
		return fmt.Errorf("cloud %q is unknown; available: %s", name, strings.Join(Clouds(), ", "))
	}
	return nil
}
