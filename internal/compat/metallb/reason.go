package metallb

import (
	"fmt"
	"strings"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Name is the name of MetalLB's configuration format.
const Name lb.Dialect = "metallb"

// Words are what MetalLB's format adds to sentences about pools.
var Words = lb.Words{
	AddPool:      "an IPAddressPool",
	AdmitService: "change the rules of a pool",
	RequestPool:  "annotation " + AnnotationAddressPool,
	Share:        "annotation " + AnnotationShare,
}

// Reasons on objects of MetalLB's kinds; their pools have those of pools, too.
const (
	AdvertisementReady   lb.Code = "AdvertisementReady"
	AdvertisementInvalid lb.Code = "AdvertisementInvalid"
	WrongNamespace       lb.Code = "WrongNamespace"
)

// OldAnnotation is the reason on Services that use an old annotation prefix.
const OldAnnotation lb.Code = "OldAnnotation"

// Reasons that only MetalLB's format has.
var Reasons = mergedReasons()

func mergedReasons() lb.Table {
	all, err := lb.Merge(ownReasons, bgpReasons)
	if err != nil { // two tables of one package: a test finds it
		panic(err)
	}
	return all
}

var ownReasons = lb.Table{
	AdvertisementReady: {On: "L2Advertisement", Ready: true,
		Means: "The advertisement applies.",
		Do:    "Nothing.",
		Text:  "The advertisement applies to %s.", Sample: []any{`pool "edge"`}},
	AdvertisementInvalid: {On: "L2Advertisement", Warning: true,
		Means: "The advertisement has a value that cannot be used, so it does not apply. Others do. Nodes that announce by BGP go on as the advertisement said before, until their agent starts again.",
		Do:    "Correct the value that the sentence names.",
		Text:  "The advertisement is refused: %s. Correct it.", Sample: []any{`ipAddressPools: "edge" is listed twice`}},
	WrongNamespace: {On: "MetalLB's kinds", Warning: true,
		Means: "Fairlead reads MetalLB's objects in one namespace only, and this one is in another.",
		Do:    "Create it in the namespace that the sentence names.",
		Text:  "The resource must be created in %s namespace. Here it has no effect.", Sample: []any{"metallb-system"}},
	OldAnnotation: {On: "Service", Warning: true, Event: true,
		Means: "The Service has an annotation with MetalLB's old prefix. It still works.",
		Do:    "Use the prefix metallb.io/ instead of metallb.universe.tf/.",
		Text:  "Deprecated: %s. Use %s instead.", Sample: []any{"metallb.universe.tf/loadBalancerIPs", "metallb.io/loadBalancerIPs"}},
}

// Reasons of MetalLB's own events on Services.
const (
	eventAllocated        = "IPAllocated"
	eventAllocationFailed = "AllocationFailed"
)

var eventNames = map[lb.Code]string{
	lb.Ready:             eventAllocated,
	lb.SingleFamily:      eventAllocated,
	lb.NoPool:            eventAllocationFailed,
	lb.NoPoolMatches:     eventAllocationFailed,
	lb.PoolExhausted:     eventAllocationFailed,
	lb.QuotaExceeded:     eventAllocationFailed,
	lb.FamilyUnavailable: eventAllocationFailed,
	lb.FamiliesApart:     eventAllocationFailed,
	lb.UnknownPool:       eventAllocationFailed,
	lb.PoolNotAllowed:    eventAllocationFailed,
	lb.PoolUnavailable:   eventAllocationFailed,
	lb.AddressNotInPool:  eventAllocationFailed,
	lb.AddressInUse:      eventAllocationFailed,
	lb.AddressReserved:   eventAllocationFailed,
	lb.AddressIsCluster:  eventAllocationFailed,
	lb.AddressIsNode:     eventAllocationFailed,
	lb.FamilyMismatch:    eventAllocationFailed,
	lb.SharingConflict:   eventAllocationFailed,
	lb.InvalidRequest:    "LoadBalancerFailed",
	lb.Announced:         "nodeAssigned",
	lb.Moved:             "nodeAssigned",
	lb.Routed:            "nodeAssigned",
	lb.NotAnnounced:      "announceFailed",
	lb.AddressReleased:   "ClearAssignment",
	OldAnnotation:        "deprecatedAnnotation",
}

// EventName is the reason of the event that MetalLB would emit for a code; "" if it
// has none.
func EventName(c lb.Code) string { return eventNames[c] }

// EventText is the reason of v, the answer to r, as its event tells it: whoever
// searches for MetalLB's events finds its own words first.
func EventText(r *lb.Request, v lb.Verdict) lb.Reason {
	out := v.Reason
	switch EventName(out.Code) {
	case eventAllocated:
		out.Text = fmt.Sprintf("Assigned IP %q. %s", prose.Texts(v.Addresses), out.Text)
	case eventAllocationFailed:
		out.Text = fmt.Sprintf("Failed to allocate IP for %q: %s%s", r.Service, strings.ToLower(out.Text[:1]), out.Text[1:])
	}
	return out
}
