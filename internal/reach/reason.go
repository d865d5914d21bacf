package reach

import "fairlead.io/internal/lb"

// Reasons on Services whose address is announced by a node at CloudSigma.
const (
	AddressNotSubscribed lb.Code = "AddressNotSubscribed"
	CardNotManual        lb.Code = "CardNotManual"
)

// Reasons of this package.
var Reasons = lb.Table{
	AddressNotSubscribed: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "A node at CloudSigma announces an address that the account has no subscription for. CloudSigma drops the packets of such addresses.",
		Do:    "Subscribe to the address at CloudSigma, or give the Service an address that the account is subscribed to.",
		Text:  "Node %s announces %s, but the CloudSigma account is not subscribed to it, so CloudSigma drops its packets. Subscribe to it, or use another address.", Sample: []any{"worker-1", "192.0.2.7"}},
	CardNotManual: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "A node at CloudSigma announces an address, but the node's public network card (NIC) is not in mode manual. CloudSigma drops packets for all addresses but the NIC's own.",
		Do:    "Set the first public NIC of each node that may announce the address to mode manual (ip_v4_conf: manual). First give the node its own address in the guest, from a subscription: the cloud assigns none in this mode. Fairlead never changes a NIC's mode.",
		Text:  "Node %s announces %s, but the public NIC of server %s is in mode %s, so CloudSigma drops packets for it. Set the NIC to mode manual.", Sample: []any{"worker-1", "192.0.2.7", "worker-1", "dhcp"}},
}
