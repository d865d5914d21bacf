package metallb

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Only the specs of the BGP kinds are Go types. Their objects are read one by one, from
// whatever is stored: MetalLB's CRDs of several years differ, and ours keep everything, so
// that one object with a value of the wrong type must not hide all others.

// BGPPeerSpec is the spec of a BGPPeer of v1beta2, and of v1beta1, which has fewer fields.
//
// +kubebuilder:object:generate=false
type BGPPeerSpec struct {
	MyASN                  uint32                 `json:"myASN"`
	LocalASN               uint32                 `json:"localASN,omitempty"`
	PeerASN                uint32                 `json:"peerASN,omitempty"`
	DynamicASN             string                 `json:"dynamicASN,omitempty"`
	PeerAddress            string                 `json:"peerAddress,omitempty"`
	Interface              string                 `json:"interface,omitempty"`
	SourceAddress          string                 `json:"sourceAddress,omitempty"`
	PeerPort               int                    `json:"peerPort,omitempty"`
	HoldTime               *metav1.Duration       `json:"holdTime,omitempty"`
	KeepaliveTime          *metav1.Duration       `json:"keepaliveTime,omitempty"`
	ConnectTime            *metav1.Duration       `json:"connectTime,omitempty"`
	RouterID               string                 `json:"routerID,omitempty"`
	NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors,omitempty"`
	Password               string                 `json:"password,omitempty"`
	PasswordSecret         SecretReference        `json:"passwordSecret,omitempty"`
	BFDProfile             string                 `json:"bfdProfile,omitempty"`
	EnableGracefulRestart  bool                   `json:"enableGracefulRestart,omitempty"`
	EBGPMultiHop           bool                   `json:"ebgpMultiHop,omitempty"`
	VRFName                string                 `json:"vrf,omitempty"`
	DualStackAddressFamily bool                   `json:"dualStackAddressFamily,omitempty"`
}

// SecretReference names a Secret. Its namespace is not used: Secrets are read in MetalLB's.
//
// +kubebuilder:object:generate=false
type SecretReference struct {
	Name string `json:"name,omitempty"`
}

// BGPAdvertisementSpec is the spec of a BGPAdvertisement.
//
// +kubebuilder:object:generate=false
type BGPAdvertisementSpec struct {
	AggregationLength      *int32                 `json:"aggregationLength,omitempty"`
	AggregationLengthV6    *int32                 `json:"aggregationLengthV6,omitempty"`
	LocalPref              uint32                 `json:"localPref,omitempty"`
	Communities            []string               `json:"communities,omitempty"`
	IPAddressPools         []string               `json:"ipAddressPools,omitempty"`
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors,omitempty"`
	NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors,omitempty"`
	ServiceSelectors       []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
	Peers                  []string               `json:"peers,omitempty"`
}

// BFDProfileSpec is the spec of a BFDProfile. Intervals are in milliseconds.
//
// +kubebuilder:object:generate=false
type BFDProfileSpec struct {
	ReceiveInterval  *uint32 `json:"receiveInterval,omitempty"`
	TransmitInterval *uint32 `json:"transmitInterval,omitempty"`
	DetectMultiplier *uint32 `json:"detectMultiplier,omitempty"`
	EchoInterval     *uint32 `json:"echoInterval,omitempty"`
	EchoMode         *bool   `json:"echoMode,omitempty"`
	PassiveMode      *bool   `json:"passiveMode,omitempty"`
	MinimumTTL       *uint32 `json:"minimumTtl,omitempty"`
}

// CommunitySpec is the spec of a Community: names for values.
//
// +kubebuilder:object:generate=false
type CommunitySpec struct {
	Communities []CommunityAlias `json:"communities,omitempty"`
}

// CommunityAlias is a name for a community.
//
// +kubebuilder:object:generate=false
type CommunityAlias struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
}
