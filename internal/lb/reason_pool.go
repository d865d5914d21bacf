package lb

// Reasons on pools.
const (
	PoolReady    Code = "PoolReady"
	PoolDisabled Code = "PoolDisabled"
	PoolOverlap  Code = "PoolOverlap"
	PoolInvalid  Code = "PoolInvalid"
)

// Reasons on objects of MetalLB's kinds; their pools have those of pools, too.
const (
	AdvertisementReady   Code = "AdvertisementReady"
	AdvertisementInvalid Code = "AdvertisementInvalid"
	WrongNamespace       Code = "WrongNamespace"
	NotServed            Code = "NotServed"
)

// Reasons on the ConfigMap of kube-vip's cloud provider.
const (
	KeyInvalid  Code = "KeyInvalid"
	KeyShadowed Code = "KeyShadowed"
	KeyUnknown  Code = "KeyUnknown"
)

var poolReasons = map[Code]About{
	PoolReady: {On: "Pool", Ready: true,
		Means: "The pool hands out addresses.",
		Do:    "Nothing.",
		text:  "The pool hands out addresses."},
	PoolDisabled: {On: "Pool",
		Means: "The pool is disabled: nothing new is handed out, what is held stays.",
		Do:    "Remove disabled: true to use it again, or delete it once nothing is held.",
		text:  "The pool is disabled: it hands out nothing new, what is held stays. Remove disabled: true to use it again."},
	PoolOverlap: {On: "Pool", Warning: true,
		Means: "The pool has addresses that an older pool has, too: it hands out nothing until one of them is changed.",
		Do:    "Change or delete one of the two; the refusal is lifted by itself.",
		text:  "Pool %q is refused: its addresses %s overlap with pool %q. Change or delete one of them.", sample: []any{"lab", "192.0.2.0-192.0.2.7", "edge"}},
	PoolInvalid: {On: "Pool", Warning: true,
		Means: "Something in the pool cannot be understood or used: it hands out nothing new, what is held stays.",
		Do:    "Correct it as the sentence says.",
		text:  "The pool is refused: %s. Correct it.", sample: []any{`addresses[0]: "192.0.2.300" is not an IP address`}},
}

var metallbReasons = map[Code]About{
	AdvertisementReady: {On: "L2Advertisement", Ready: true,
		Means: "The advertisement applies.",
		Do:    "Nothing.",
		text:  "The advertisement applies to %s.", sample: []any{`pool "edge"`}},
	AdvertisementInvalid: {On: "L2Advertisement", Warning: true,
		Means: "Something in the advertisement cannot be understood: it does not apply, others do.",
		Do:    "Correct it as the sentence says.",
		text:  "The advertisement does not apply: %s. Correct it.", sample: []any{`ipAddressPools: "edge" is listed twice`}},
	WrongNamespace: {On: "MetalLB's kinds", Warning: true,
		Means: "Objects of MetalLB's kinds count in one namespace only, and this one is in another.",
		Do:    "Create it in the namespace that the sentence names.",
		text:  "The resource must be created in %s namespace. Here it has no effect.", sample: []any{"metallb-system"}},
	NotServed: {On: "MetalLB's BGP kinds", Warning: true, Event: true,
		Means: "Fairlead announces by ARP and NDP; objects of this kind have no effect.",
		Do:    "Announce the addresses with an L2Advertisement.",
		text:  "Fairlead does not serve %s: it has no effect. Announce the addresses with an L2Advertisement.", sample: []any{"BGPPeer"}},
}

var configMapReasons = map[Code]About{
	KeyInvalid: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A value in the ConfigMap cannot be understood or used; all other keys count.",
		Do:    "Correct it as the sentence says.",
		text:  "Key %s: %s. Correct it.", sample: []any{"cidr-global", `"192.0.2.300" is not an IP address`}},
	KeyShadowed: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A key in the ConfigMap has no effect, because another one comes before it.",
		Do:    "Remove one of the two keys, or set pool-precedence: namespace-first, with which the keys of a namespace come before those for all.",
		text:  "Key %s has no effect, because key %s comes before it. Remove one of them%s.", sample: []any{"range-shop", "cidr-global", ", or set pool-precedence to namespace-first, with which the keys of a namespace come first"}},
	KeyUnknown: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A key in the ConfigMap has no effect.",
		Do:    "Correct or remove it.",
		text:  "Key %s has no effect: %s. Correct or remove it.", sample: []any{"cird-global", "there are cidr-global and range-global"}},
}
