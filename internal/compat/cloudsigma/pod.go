package cloudsigma

import (
	"net/netip"
	"strings"
)

// Names and labels of the pods that carry addresses, one each.
const (
	PodNamespace = "kube-system"
	podPrefix    = "lb-ip-"

	LabelApp     = "app"
	PodApp       = "cloudsigma-lb-ip"
	LabelAddress = "cloudsigma.com/ip"
	LabelService = "cloudsigma.com/svc" // its ClusterIP
)

// PodName is the name of the pod that carries an address.
func PodName(a netip.Addr) string {
	return podPrefix + strings.ReplaceAll(LabelValue(a), ".", "-")
}

// LabelValue is an address as the value of a label, which has no colons and neither
// begins nor ends with what stands for one.
func LabelValue(a netip.Addr) string {
	value := strings.ReplaceAll(a.String(), ":", "-")
	if strings.HasPrefix(value, "-") {
		value = "0" + value
	}
	if strings.HasSuffix(value, "-") {
		value += "0"
	}
	return value
}
