// Package carry keeps one address on one interface of this node, for clusters whose
// nodes have no agent: the controller runs it in a pod for each address.
//
// It puts the address on the interface, announces it, puts it back when somebody
// removes it, and takes it off at the end. There is no fence and no election: who else
// announces the address was told to carry it later, so this node yields. It does not
// forward: kube-proxy does. It knows no API server, no Service and no cloud.
package carry
