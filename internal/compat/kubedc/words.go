package kubedc

import "slices"

// prefix of kube-dc's annotations about load balancers.
const prefix = "service.nlb.kube-dc.com/"

// LabelNetworkType is on Subnets of external networks. Its value is their type.
const LabelNetworkType = "network.kube-dc.com/external-network-type"

// DefaultGateway is the EIp that each project has: the address of its router.
const DefaultGateway = "default-gw"

// The types of external networks.
const (
	Public = "public"
	Cloud  = "cloud"
)

var networkTypes = []string{Public, Cloud}

// unserved are annotations of kube-dc that have another purpose than addresses.
var unserved = []string{
	prefix + "autodelete", prefix + "create-gateway-backend", prefix + "expose-route", prefix + "route-hostname",
	prefix + "route-hostname-status", prefix + "route-port", prefix + "tls-issuer", prefix + "tls-secret",
}

// Unserved says whether an annotation is one of kube-dc's that has another purpose than
// addresses: it has no effect here.
func Unserved(annotation string) bool { return slices.Contains(unserved, annotation) }
