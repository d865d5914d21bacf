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

	// ClusterName is added to every log line, and to the tags of objects in a cloud.
	// Without it, these have the UID of the namespace kube-system. With OVN, the same name
	// is in the rows of the northbound database. Do not change it then: Fairlead does not
	// adopt rows with another name, and Services report VIPConflict.
	ClusterName string `json:"clusterName,omitempty"`

	// Classes of Services to serve. Fairlead never changes a Service of another
	// class. Default: Services without a class, and those of class
	// fairlead.io/fairlead.
	Classes []Class `json:"classes,omitempty"`

	// Nodes configures whether Fairlead also manages Node objects.
	Nodes Nodes `json:"nodes,omitempty"`

	// CloudSigma is for classes with backend "cloudsigma".
	CloudSigma CloudSigmaOptions `json:"cloudsigma,omitzero"`

	// OVN is for classes with backend "ovn".
	OVN OVNOptions `json:"ovn,omitzero"`
}

// OVNOptions say where OVN's northbound database is, and who serves EIps.
type OVNOptions struct {
	// Northbound lists the endpoints of the database's servers: unix:PATH,
	// tcp:HOST:PORT or ssl:HOST:PORT. Default: those in $OVN_NB_DB, separated by
	// commas, or tcp:ovn-nb.kube-system.svc:6641, where kube-ovn has it.
	Northbound []string `json:"northbound,omitempty"`

	// CA is the file with the certificates that sign those of the servers. Endpoints with
	// ssl: need it.
	CA string `json:"ca,omitempty"`

	// Certificate is the file with the controller's own certificate. Endpoints with ssl:
	// need it.
	Certificate string `json:"certificate,omitempty"`

	// Key is the file with the private key of the certificate.
	Key string `json:"key,omitempty"`

	// EIps says who serves kube-dc's EIps. "serve" (default): Fairlead does, also those
	// that no Service uses. "use": kube-dc's manager does. Fairlead then only creates and
	// deletes EIps for Services, and waits for their addresses.
	EIps EIpMode `json:"eips,omitempty"`
}

// CloudSigmaOptions say how nodes at CloudSigma carry addresses.
type CloudSigmaOptions struct {
	// Interface of the nodes that carries the addresses, such as "ens3". Default: the
	// one with the node's default route, or else the first that leads outside.
	Interface string `json:"interface,omitempty"`

	// Pods says that the nodes have no agents: the controller runs a pod for each address
	// on the node that carries it. Default: false; true without a configuration file.
	Pods bool `json:"pods,omitempty"`
}

// Nodes says which cloud's node controllers run.
type Nodes struct {
	// Cloud whose servers the nodes are. "none": Fairlead does not manage Node
	// objects. "cloudscale": they get their providerID, labels and addresses from
	// cloudscale.ch, and are deleted with their server. The access token is in
	// $CLOUDSCALE_ACCESS_TOKEN, or in the file $CLOUDSCALE_ACCESS_TOKEN_FILE.
	// "cloudsigma": the same from CloudSigma, with the region and the credentials in
	// $CLOUDSIGMA_REGION and other variables.
	Cloud Cloud `json:"cloud,omitempty"`
}

// Class says how the Services of one spec.loadBalancerClass are served.
type Class struct {
	// Name is the spec.loadBalancerClass of the Services. "" means Services without
	// a class.
	Name string `json:"name"`

	// Backend that makes the addresses reachable. "announce" (default): the nodes
	// announce addresses from pools. "kube-vip": Fairlead writes addresses from pools
	// to the Service, and kube-vip announces them. "cloudscale": load balancers of
	// cloudscale.ch, configured by the k8s.cloudscale.ch/… annotations of Services.
	// "cloudsigma": addresses of an account at CloudSigma, attached to nodes, which
	// announce them; it needs clusterName. "ovn": load balancers on the logical routers
	// of OVN, in projects of kube-dc or with pools.
	Backend Backend `json:"backend,omitempty"`

	// Pools lists the configuration formats whose pools the class may use. "native":
	// Pool objects. "metallb": IPAddressPool and L2Advertisement objects, if their CRDs
	// are installed. "kube-vip": the ConfigMap of kube-vip-cloud-provider, if it exists.
	// Default: all of them with backend "announce"; only "kube-vip" with backend
	// "kube-vip"; none with backend "ovn", where kube-ovn assigns the addresses then. The
	// first format also sets the wording for Services without an
	// address; if all pools are MetalLB's, MetalLB's wording is used.
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
	// CloudSigma takes addresses from an account at CloudSigma, and attaches them to
	// nodes.
	CloudSigma Backend = "cloudsigma"
	// OVN makes load balancers on logical routers. kube-ovn assigns the addresses, or
	// they are from pools, if the class has some.
	OVN Backend = "ovn"
)

// Cloud has the servers that the nodes are.
type Cloud string

const (
	// NoCloud leaves Nodes to others.
	NoCloud Cloud = "none"
	// CloudscaleNodes are servers at cloudscale.ch.
	CloudscaleNodes Cloud = "cloudscale"
	// CloudSigmaNodes are servers at CloudSigma.
	CloudSigmaNodes Cloud = "cloudsigma"
)

// Names of the other configuration formats, as they are written in the file.
const (
	metallbPools lb.Dialect = "metallb"
	kubevipPools lb.Dialect = "kube-vip"
)

var (
	backends = []Backend{Announce, KubeVIP, Cloudscale, CloudSigma, OVN}
	clouds   = []Cloud{NoCloud, CloudscaleNodes, CloudSigmaNodes}
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

// FromEnv is the configuration without a file. clouds are those that the
// environment configures: Fairlead is the controller manager of that cloud. Where
// the environment is that of kube-vip's cloud provider, Fairlead replaces it.
func FromEnv(getenv func(string) string, clouds ...Cloud) (*Configuration, error) {
	c := &Configuration{APIVersion: apiVersion, Kind: kind}
	if len(clouds) > 1 {
		return nil, fmt.Errorf("the environment configures several clouds, %s; Services without a class can only belong to one: assign classes in a configuration file (--config)", join(clouds))
	}
	for _, cloud := range clouds {
		c.Classes = append(c.Classes, Class{Backend: Backend(cloud)})
		c.Nodes.Cloud = cloud
		c.CloudSigma.Pods = cloud == CloudSigmaNodes
	}
	provided, err := fromKubeVIP(getenv)
	if err != nil {
		return nil, err
	}
	if provided != nil {
		if c.Class(provided.Name) != nil {
			return nil, fmt.Errorf("the environment configures both the cloud %s and kube-vip's cloud provider ($%s, $%s); Services without a class can only belong to one: assign classes in a configuration file (--config), or set $%s", join(clouds), EnvKubeVIPNamespace, EnvKubeVIPConfigMap, EnvKubeVIPClassMode)
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

// maxInterface is how long the name of an interface can be.
const maxInterface = 15

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
			errs = append(errs, fmt.Errorf("classes[%d]: backend %q is unknown; available: %s", i, class.Backend, join(backends)))
		}
		if slices.Contains(backends, class.Backend) && !class.Backend.FromPools() && class.Backend != OVN && len(class.Pools) > 0 {
			errs = append(errs, fmt.Errorf("classes[%d]: pools are for backend %q; with %q the cloud assigns the addresses", i, Announce, class.Backend))
		}
		for _, d := range class.Pools {
			if !slices.Contains(dialects, d) {
				errs = append(errs, fmt.Errorf("classes[%d]: pools %q are unknown; available: %s", i, d, join(dialects)))
			}
		}
	}
	if name := c.CloudSigma.Interface; len(name) > maxInterface || strings.ContainsAny(name, "/ \t\n") {
		errs = append(errs, fmt.Errorf("cloudsigma.interface %q is not the name of an interface", name))
	}
	errs = append(errs, c.OVN.validate()...)
	if c.Nodes.Cloud != "" && !slices.Contains(clouds, c.Nodes.Cloud) {
		errs = append(errs, fmt.Errorf("nodes.cloud %q is unknown; available: %s", c.Nodes.Cloud, join(clouds)))
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
	if slices.Contains(c.Backends(), OVN) {
		c.OVN.EIps = cmp.Or(c.OVN.EIps, ServeEIps)
	}
}

// FromPools says whether the backend is for addresses from pools.
func (b Backend) FromPools() bool { return b == Announce || b == KubeVIP }

// Places says whether the backend chooses the nodes that may carry an address, which
// agents then announce.
func (b Backend) Places() bool { return b == CloudSigma }

// PlacedInterface is the interface that carries the addresses of a backend that places
// them; "" is none in particular.
func (c *Configuration) PlacedInterface(b Backend) string {
	if b == CloudSigma {
		return c.CloudSigma.Interface
	}
	return ""
}

// Backends are those of the classes that are served, each once, sorted.
func (c *Configuration) Backends() []Backend {
	var out []Backend
	for _, class := range c.Classes {
		if !slices.Contains(out, class.Backend) {
			out = append(out, class.Backend)
		}
	}
	slices.Sort(out)
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
func (c *Configuration) OnlyClass(name string) (*Configuration, error) {
	return c.announcing("--lb-class", Class{Name: name, Backend: Announce, Pools: []lb.Dialect{metallbPools, lb.Native}})
}

// announcing returns c with other classes in place of its own. who asks for them is
// about nothing but what nodes announce, so classes of backend "ovn" stay; it is an
// error if one of them is asked for.
func (c *Configuration) announcing(who string, classes ...Class) (*Configuration, error) {
	out := *c
	out.Classes = classes
	for _, class := range c.Classes {
		if class.Backend != OVN {
			continue
		}
		if out.Class(class.Name) != nil {
			return nil, fmt.Errorf("%s is %q, but the configuration has this class with backend %q; choose another class for one of them", who, class.Name, OVN)
		}
		out.Classes = append(out.Classes, class)
	}
	return &out, nil
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
