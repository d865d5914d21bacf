// Package eip decides how Services in projects of kube-dc get their addresses. An EIp
// stands for an external address of a namespace, and an OvnEip, for which kube-ovn
// allocates it, is behind each. View says which Service has which EIp, what becomes of
// each EIp and its OvnEip, and which objects accompany a Service.
//
// All of it is pure: objects are read by somebody else, and what is to be written is
// returned as steps. Every step can be repeated: names are derived from UIDs, patches
// and deletions are for the version that was read. It knows nothing of OVN's database
// but which addresses its rows have.
package eip
