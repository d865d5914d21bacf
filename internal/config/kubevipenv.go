package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"fairlead.io/internal/lb"
)

// Variables of kube-vip's own DaemonSet that take effect here.
const (
	envInterface        = "vip_interface"
	envServiceInterface = "vip_servicesinterface"
	envRate             = "vip_arpRate"
	envNodeName         = "vip_nodename"
	envServices         = "svc_enable"
	envClassName        = "lb_class_name"
	envClassOnly        = "lb_class_only"
	envClassLegacy      = "lb_class_legacy_handling"
	envServiceElection  = "svc_election"

	// anyInterface is the name that stands for no interface in particular.
	anyInterface = "auto"
	// interfaceLength is the length of the longest name of an interface.
	interfaceLength = 15
	// leastRate is below which kube-vip does not take vip_arpRate seriously.
	leastRate = 500 * time.Millisecond
)

// Effect is what a variable of kube-vip does here.
type Effect int

const (
	// Effective variables mean here what they mean there.
	Effective Effect = iota
	// NotNeeded ones have nothing to set here.
	NotNeeded
	// Unserved ones ask for something that there is not.
	Unserved
)

// KubeVIPVariable is a variable of the environment of kube-vip's own DaemonSet.
type KubeVIPVariable struct {
	// Name, or its beginning, with an asterisk.
	Name   string
	Effect Effect
	// Note says what it does, or why it does nothing.
	Note string
}

const (
	elected   = "the agents elect the node of each address by themselves"
	noControl = "Fairlead does not announce the address of the API server; keep kube-vip for it, with svc_enable=false"
	noTables  = "Fairlead announces addresses by ARP, NDP and BGP, and keeps no routing tables"
	noEgress  = "Fairlead does not change the source addresses of pods"
	elsewhere = "use --metrics-address and --health-address"
)

// KubeVIPVariables are those that concern Services, and those that people may
// take to.
var KubeVIPVariables = []KubeVIPVariable{
	{envServiceInterface, Effective, "interface on which Services are announced, unless the Service, its pool or the ConfigMap selects another; auto means any suitable interface"},
	{envInterface, Effective, "the same, if vip_servicesinterface is not set"},
	{envRate, Effective, "interval for repeating announcements, in milliseconds, as --announce-interval; not needed by default"},
	{envNodeName, Effective, "name of the Node, as --node-name"},
	{envServices, Effective, "must not be false: agents only serve Services"},
	{envClassName, Effective, "spec.loadBalancerClass to serve in addition to Services without a class; default kube-vip.io/kube-vip-class if one of the next two is set"},
	{envClassOnly, Effective, "true: do not serve Services without a class"},
	{envClassLegacy, Effective, "false: serve only the class lb_class_name; if that is empty, only Services without a class"},
	{"bgp_*", Effective, "with bgp_enable: Services are announced to these peers by BGP, from every node (also with svc_election), and not by ARP and NDP"},
	{"mpbgp_nexthop", Effective, "addresses of both IP families are announced in one session; with fixed, the next hops are mpbgp_ipv4 and mpbgp_ipv6"},
	{"mpbgp_ipv4", Effective, "with mpbgp_nexthop=fixed: next hop of IPv4 addresses"},
	{"mpbgp_ipv6", Effective, "with mpbgp_nexthop=fixed: next hop of IPv6 addresses"},
	{"annotations", Effective, "with bgp_enable: prefix of the Node annotations that name the peers instead"},

	{"vip_arp", NotNeeded, "Fairlead announces addresses by ARP and NDP, unless bgp_enable is true"},
	{"vip_subnet", NotNeeded, "Fairlead adds every address as a single host address"},
	{"vip_cidr", NotNeeded, "Fairlead adds every address as a single host address"},
	{"vip_leaderelection", NotNeeded, elected},
	{"vip_leasename", NotNeeded, elected},
	{"vip_leaseduration", NotNeeded, elected},
	{"vip_renewdeadline", NotNeeded, elected},
	{"vip_retryperiod", NotNeeded, elected},
	{"vip_leaseannotations", NotNeeded, elected},
	{"vip_singlenode", NotNeeded, elected},
	{"vip_startleader", NotNeeded, elected},
	{"vip_loseleadership*", NotNeeded, elected},
	{"vip_preserve_on_leadership_loss", NotNeeded, elected},
	{envServiceElection, NotNeeded, elected},
	{"svc_leasename", NotNeeded, elected},
	{"per_service_election_on_demand", NotNeeded, elected},
	{"leader_election_type", NotNeeded, elected},
	{"etcd_*", NotNeeded, elected},
	{"vip_skipdad", NotNeeded, "the agent probes new addresses, without delaying others"},
	{"vip_loglevel", NotNeeded, "use --log-level"},
	{"prometheus_server", NotNeeded, elsewhere},
	{"health_check_port", NotNeeded, elsewhere},
	{"enable_service_security", NotNeeded, "only the Service's ports are open at its address, always"},
	{"enable_endpoints", NotNeeded, "Fairlead always uses EndpointSlices"},
	{"enable_endpointslices", NotNeeded, "Fairlead always uses EndpointSlices"},
	{"debounce_time", NotNeeded, "simultaneous changes are always processed together"},
	{"dhcp_backoff_attempts", NotNeeded, "the agent asks DHCP servers until one answers"},
	{"dhcp_mode", NotNeeded, "the Service selects the IP families for DHCP"},
	{"iptables_backend", NotNeeded, "Fairlead uses its own nftables tables"},
	{"k8s_config_file", NotNeeded, "use --kubeconfig"},

	{"bgp_attach_ip_to_interface", Unserved, "addresses that are announced by BGP are on no interface"},
	{"svc_namespace", Unserved, "Fairlead serves all namespaces; use a class to select Services (lb_class_name)"},
	{"disable_service_updates", Unserved, "the controller always publishes addresses in the status of Services"},
	{"zebra_*", Unserved, noTables},
	{"vip_routingtable*", Unserved, noTables},
	{"vip_routingprotocol", Unserved, noTables},
	{"vip_cleanroutingtable", Unserved, noTables},
	{"vip_wireguard", Unserved, noTables},
	{"egress_*", Unserved, noEgress},
	{"EGRESS_CLEAN", Unserved, noEgress},
	{"cp_enable", Unserved, noControl},
	{"lb_enable", Unserved, noControl},
	{"vip_ddns", Unserved, noControl},
	{"enable_node_labeling", Unserved, "Fairlead does not label nodes; Agent objects show the addresses of each node"},
	{"enable_upnp", Unserved, "Fairlead does not configure routers by UPnP"},
	{"mirror_dest_if", Unserved, "Fairlead does not mirror traffic"},
	{"provider_config", Unserved, "Fairlead does not use kube-vip's own cloud providers"},
	{"vip_packet*", Unserved, "Fairlead does not use kube-vip's own cloud providers"},
}

// KubeVIPDaemon is what the environment of kube-vip's own DaemonSet says.
type KubeVIPDaemon struct {
	// Interface on which Services are announced that name no other; "" is any.
	Interface string
	// Refresh is how often addresses are announced again; 0 if not set.
	Refresh time.Duration
	// NodeName, if it is set.
	NodeName string
	// Classes that are served, "" being Services without one; nil if not set.
	Classes []string
	// Idle are variables that are set and change nothing.
	Idle []IdleVariables
}

// IdleVariables have the same reason for changing nothing.
type IdleVariables struct {
	Effect Effect
	Note   string
	Names  []string
}

// KubeVIPDaemonFrom reads environ, which is as os.Environ has it.
func KubeVIPDaemonFrom(environ []string) (*KubeVIPDaemon, error) {
	set := settings(environ)
	d := &KubeVIPDaemon{NodeName: set[envNodeName], Idle: idle(set)}
	var err error
	name := envServiceInterface
	if set[name] == "" {
		name = envInterface
	}
	if d.Interface, err = interfaceName(set[name]); err != nil {
		return nil, fmt.Errorf("$%s: %w", name, err)
	}
	if text := set[envRate]; text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if d.Refresh = time.Duration(ms) * time.Millisecond; err != nil || d.Refresh < leastRate {
			return nil, fmt.Errorf("$%s is %q, must be a number of milliseconds, at least %d", envRate, text, leastRate.Milliseconds())
		}
	}
	if on, err := boolean(set, envServices, true); err != nil {
		return nil, err
	} else if !on {
		return nil, fmt.Errorf("$%s is %q, but agents only serve Services; do not run the agent on nodes that should not announce", envServices, set[envServices])
	}
	d.Classes, err = classesOf(set)
	return d, err
}

// KubeVIPClassesFrom returns only the classes.
func KubeVIPClassesFrom(environ []string) ([]string, error) { return classesOf(settings(environ)) }

func settings(environ []string) map[string]string {
	set := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = value
	}
	return set
}

// classesOf returns the classes that are served, or nil if none is set.
func classesOf(set map[string]string) ([]string, error) {
	name, named := set[envClassName]
	if !named && set[envClassOnly] == "" && set[envClassLegacy] == "" {
		return nil, nil
	}
	if !named {
		name = kubevipClass
	}
	only, err := boolean(set, envClassOnly, false)
	if err != nil {
		return nil, err
	}
	legacy, err := boolean(set, envClassLegacy, true)
	switch {
	case err != nil:
		return nil, err
	case !legacy:
		return []string{name}, nil
	case name == "" && only:
		return nil, fmt.Errorf("$%s is true, but $%s is empty: no Service would be served", envClassOnly, envClassName)
	case name == "":
		return []string{""}, nil
	case only:
		return []string{name}, nil
	}
	return []string{"", name}, nil
}

func boolean(set map[string]string, name string, other bool) (bool, error) {
	if set[name] == "" {
		return other, nil
	}
	b, err := strconv.ParseBool(set[name])
	if err != nil {
		return false, fmt.Errorf("$%s is %q, must be true or false", name, set[name])
	}
	return b, nil
}

// interfaceName reads the name of an interface on which to announce.
func interfaceName(text string) (string, error) {
	switch {
	case text == anyInterface:
		return "", nil
	case text == "lo":
		return "", fmt.Errorf("announcements on %q reach no other host; name the LAN interface, or %q", text, anyInterface)
	case len(text) > interfaceLength || strings.ContainsFunc(text, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }):
		return "", fmt.Errorf("%q is not a valid interface name", text)
	}
	return text, nil
}

// idle returns the variables that are set and change nothing, those with the same
// reason together. One that switches something off that is not there is right.
func idle(set map[string]string) (out []IdleVariables) {
	usesBGP, _ := strconv.ParseBool(set[envBGP])
	for _, v := range KubeVIPVariables {
		if v.Effect == Effective {
			continue
		}
		for name, value := range set {
			if on, err := strconv.ParseBool(value); value == "" || !v.Names(name) || v.Effect == Unserved && err == nil && !on {
				continue
			}
			effect, note := v.Effect, v.Note
			if on, err := strconv.ParseBool(value); name == envServiceElection && err == nil && on && usesBGP {
				effect, note = Unserved, "with bgp_enable, every node announces, not only a leader"
			}
			i := slices.IndexFunc(out, func(o IdleVariables) bool { return o.Effect == effect && o.Note == note })
			if i < 0 {
				i = len(out)
				out = append(out, IdleVariables{Effect: effect, Note: note})
			}
			out[i].Names = append(out[i].Names, name)
		}
	}
	for i := range out {
		slices.Sort(out[i].Names)
	}
	slices.SortStableFunc(out, func(a, b IdleVariables) int { return cmp.Compare(b.Effect, a.Effect) })
	return out
}

// AboutBGP says that the variable only counts if BGP is enabled.
func (v KubeVIPVariable) AboutBGP() bool {
	return v.Name == envBGPAnnotations || strings.HasPrefix(v.Name, "bgp_") || strings.HasPrefix(v.Name, "mpbgp_")
}

// Names says whether name is that of the variable.
func (v KubeVIPVariable) Names(name string) bool {
	beginning, more := strings.CutSuffix(v.Name, "*")
	return name == v.Name || more && strings.HasPrefix(name, beginning)
}

// OnlyKubeVIPClasses returns c with other classes in place of its own, as kube-vip's
// variables lb_class_… ask for: announced from pools of every kind. These are about
// who announces, so it is an error if that is kube-vip.
func (c *Configuration) OnlyKubeVIPClasses(names []string) (*Configuration, error) {
	if slices.Contains(c.Backends(), KubeVIP) {
		return nil, fmt.Errorf("$%s, $%s and $%s only apply when Fairlead announces; here kube-vip announces, and the configuration or $%s selects its Services", envClassName, envClassOnly, envClassLegacy, EnvKubeVIPClassMode)
	}
	var classes []Class
	for _, name := range names {
		classes = append(classes, Class{Name: name, Backend: Announce, Pools: []lb.Dialect{kubevipPools, lb.Native, metallbPools}})
	}
	return c.announcing("$"+envClassName, classes...)
}
