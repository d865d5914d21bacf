// Package config reads the configuration file: which classes of Services are
// served, by which backend, from which pools. It knows nothing about how.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/lb"
)

const (
	apiVersion = "fairlead.io/v1alpha1"
	kind       = "Configuration"
)

// Configuration is the file given with --config. Everything in it is optional.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// ClusterName is added to every log line, to tell clusters apart.
	ClusterName string `json:"clusterName,omitempty"`

	// Classes that are served. A Service of a class that is not listed is never
	// touched. Without any: Services without a class, and those of class
	// fairlead.io/fairlead.
	Classes []Class `json:"classes,omitempty"`

	// Nodes says whether Fairlead also looks after the Node objects.
	Nodes Nodes `json:"nodes,omitempty"`
}

// Nodes says which cloud's node controllers run.
type Nodes struct {
	// Cloud is whose servers the nodes are. "none": Node objects are left to
	// others. "cloudscale": they get their providerID, labels and addresses from
	// cloudscale.ch, and go with their server. The access token is in
	// $CLOUDSCALE_ACCESS_TOKEN, or in the file $CLOUDSCALE_ACCESS_TOKEN_FILE.
	Cloud Cloud `json:"cloud,omitempty"`
}

// Class says how the Services of one spec.loadBalancerClass are served.
type Class struct {
	// Name is the Service's spec.loadBalancerClass; "" is for Services without.
	Name string `json:"name"`

	// Backend that makes the addresses real. "announce": addresses from pools,
	// announced by the nodes. "kube-vip": addresses from pools, written onto the
	// Service for kube-vip to announce. "cloudscale": load balancers of
	// cloudscale.ch, as the annotations k8s.cloudscale.ch/… of Services say.
	Backend Backend `json:"backend,omitempty"`

	// Pools are the dialects whose pools the class may use, all of them by default
	// if its backend is "announce", "kube-vip" alone if it is that. "native": the kind
	// Pool; "metallb": MetalLB's kinds IPAddressPool and L2Advertisement, as far
	// as they are installed; "kube-vip": the ConfigMap of kube-vip's cloud
	// provider, if it is there. The first is also the one in whose words a Service
	// that has nothing is told why; where all pools are MetalLB's, it is MetalLB's.
	Pools []lb.Dialect `json:"pools,omitempty"`
}

// Backend makes addresses real.
type Backend string

const (
	// Announce takes addresses from pools; the nodes announce them.
	Announce Backend = "announce"
	// KubeVIP takes addresses from pools; kube-vip announces them.
	KubeVIP Backend = "kube-vip"
	// Cloudscale makes load balancers at cloudscale.ch, which have addresses.
	Cloudscale Backend = "cloudscale"
)

// Cloud has the servers that the nodes are.
type Cloud string

const (
	// NoCloud leaves Nodes to others.
	NoCloud Cloud = "none"
	// CloudscaleNodes are servers at cloudscale.ch.
	CloudscaleNodes Cloud = "cloudscale"
)

// Names of configuration formats besides our own, as they are written in the file.
const (
	metallbPools lb.Dialect = "metallb"
	kubevipPools lb.Dialect = "kube-vip"
)

var (
	backends = []Backend{Announce, KubeVIP, Cloudscale}
	clouds   = []Cloud{NoCloud, CloudscaleNodes}
	dialects = []lb.Dialect{lb.Native, metallbPools, kubevipPools}
)

// DefaultClass is the class served besides "" where no file says otherwise.
const DefaultClass = "fairlead.io/fairlead"

// Default is the configuration without a file.
func Default() *Configuration {
	c := &Configuration{APIVersion: apiVersion, Kind: kind}
	c.complete()
	return c
}

// FromEnv is the configuration without a file. Where the environment has the
// access token of a cloud, Fairlead is that cloud's controller manager; where it is
// that of kube-vip's cloud provider, it is that.
func FromEnv(getenv func(string) string) (*Configuration, error) {
	c := &Configuration{APIVersion: apiVersion, Kind: kind}
	if cloudscale.Configured(getenv) {
		c.Classes = append(c.Classes, Class{Backend: Cloudscale})
		c.Nodes.Cloud = CloudscaleNodes
	}
	provided, err := fromKubeVIP(getenv)
	if err != nil {
		return nil, err
	}
	if provided != nil {
		if c.Class(provided.Name) != nil {
			return nil, fmt.Errorf("the environment has an access token for cloudscale.ch and is that of kube-vip's cloud provider, too ($%s, $%s); Services without a class cannot be for both: say in a file (--config) which class is whose, or set $%s", EnvKubeVIPNamespace, EnvKubeVIPConfigMap, EnvKubeVIPClassMode)
		}
		c.Classes = append(c.Classes, *provided)
	}
	c.complete()
	return c, nil
}

// Load reads the file at path.
func Load(path string) (*Configuration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads a configuration. Unknown fields are errors, and all errors are
// told at once.
func Parse(data []byte) (*Configuration, error) {
	var c Configuration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.complete()
	return &c, nil
}

func (c *Configuration) validate() error {
	var errs []error
	if c.APIVersion != apiVersion || c.Kind != kind {
		errs = append(errs, fmt.Errorf("apiVersion and kind are %q and %q, must be %q and %q", c.APIVersion, c.Kind, apiVersion, kind))
	}
	seen := map[string]bool{}
	for i, class := range c.Classes {
		if seen[class.Name] {
			errs = append(errs, fmt.Errorf("classes[%d]: class %q is listed twice", i, class.Name))
		}
		seen[class.Name] = true
		if class.Backend != "" && !slices.Contains(backends, class.Backend) {
			errs = append(errs, fmt.Errorf("classes[%d]: backend %q is not known; there is %s", i, class.Backend, join(backends)))
		}
		if class.Backend == Cloudscale && len(class.Pools) > 0 {
			errs = append(errs, fmt.Errorf("classes[%d]: pools are for backend %q; with %q the cloud has the addresses", i, Announce, class.Backend))
		}
		for _, d := range class.Pools {
			if !slices.Contains(dialects, d) {
				errs = append(errs, fmt.Errorf("classes[%d]: pools %q are not known; there is %s", i, d, join(dialects)))
			}
		}
	}
	if c.Nodes.Cloud != "" && !slices.Contains(clouds, c.Nodes.Cloud) {
		errs = append(errs, fmt.Errorf("nodes.cloud %q is not known; there is %s", c.Nodes.Cloud, join(clouds)))
	}
	return errors.Join(errs...)
}

func (c *Configuration) complete() {
	if len(c.Classes) == 0 {
		c.Classes = []Class{{Name: ""}, {Name: DefaultClass}}
	}
	for i := range c.Classes {
		if c.Classes[i].Backend == "" {
			c.Classes[i].Backend = Announce
		}
		switch class := &c.Classes[i]; {
		case len(class.Pools) > 0 || !class.Backend.FromPools():
		case class.Backend == KubeVIP:
			class.Pools = []lb.Dialect{kubevipPools}
		default:
			class.Pools = slices.Clone(dialects)
		}
	}
	c.Nodes.Cloud = cmp.Or(c.Nodes.Cloud, NoCloud)
}

// FromPools says whether the backend is for addresses from pools.
func (b Backend) FromPools() bool { return b == Announce || b == KubeVIP }

// FromPools says whether any class has addresses from pools.
func (c *Configuration) FromPools() bool { return slices.ContainsFunc(c.Backends(), Backend.FromPools) }

// Backends are those of the classes that are served.
func (c *Configuration) Backends() []Backend {
	var out []Backend
	for _, b := range backends {
		if slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Backend == b }) {
			out = append(out, b)
		}
	}
	return out
}

// Class returns how Services of the named class are served, or nil if they are
// not.
func (c *Configuration) Class(name string) *Class {
	for i := range c.Classes {
		if c.Classes[i].Name == name {
			return &c.Classes[i]
		}
	}
	return nil
}

// OnlyClass returns c with one class in place of all others, as MetalLB's flag
// --lb-class asks for: that of the name, "" being Services without a class,
// announced from pools of MetalLB's kinds and our own.
func (c *Configuration) OnlyClass(name string) *Configuration {
	out := *c
	out.Classes = []Class{{Name: name, Backend: Announce, Pools: []lb.Dialect{metallbPools, lb.Native}}}
	return &out
}

// Uses says whether any class may use pools of the dialect.
func (c *Configuration) Uses(d lb.Dialect) bool {
	return slices.ContainsFunc(c.Classes, func(class Class) bool { return slices.Contains(class.Pools, d) })
}

func join[T ~string](all []T) string {
	var out []string
	for _, v := range all {
		out = append(out, fmt.Sprintf("%q", v))
	}
	return strings.Join(out, ", ")
}
