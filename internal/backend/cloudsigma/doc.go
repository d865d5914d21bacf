// Package cloudsigma gives Services addresses of a CloudSigma account, and attaches
// them to nodes.
//
//	what Kubernetes has        what is wanted
//	Want ───────────────────►  Desired ─┐
//	                                    ├─► Plan: steps, and what they cost ─► apply
//	the cloud ──────────────►  account ─┘
//
// The account's addresses are two pools of ipam (inventory). An address that a
// Service gets is claimed by three tags, of which that of the cluster says whose it
// is, and attached to a node as a network card (NIC), unless the node's own card is in
// mode manual. Which node that is, is decided here (place), and written into the
// Service's status, where the agents read it.
//
// What is done in one look is read back before the next thing is done, and before
// anything is published. So a crash, a lost answer or a change by somebody else needs
// no case of its own: the next look sees what there is. Deletion is the same plan with
// nothing wanted.
//
// The package writes nothing to Kubernetes and keeps no state that matters.
package cloudsigma
