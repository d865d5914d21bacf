package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.io/sandbox/simulator"
)

// Cloudscale is a cloud that [Cluster.Cloud] can name: a simulator of
// cloudscale.ch, see the package of that name.
const Cloudscale = "cloudscale"

// clouds are all that there are, by the name of their command of this program.
var clouds = map[string]simulator.Cloud{Cloudscale: cloudscale{}}

// Clouds are the names that [Cluster.Cloud] can have.
func Clouds() []string { return slices.Sorted(maps.Keys(clouds)) }

func checkCloud(name string) error {
	if _, known := clouds[name]; name != "" && !known {
		return fmt.Errorf("cloud %q is unknown; available: %s", name, strings.Join(Clouds(), ", "))
	}
	return nil
}
