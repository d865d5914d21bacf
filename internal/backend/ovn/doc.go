// Package ovn is the backend of Services that OVN's logical routers serve: an address
// outside leads to pods and virtual machines behind the router of a project. The rows of
// the northbound database are package fairlead.io/internal/ovn's; this package says what
// a Service needs of them, and what becomes of the Service.
//
// It does not know where a Service's router and addresses come from: a [Placer] says so.
// Rows say whose they are, so Services have no finalizer: rows of a Service that is gone
// are removed as soon as that is seen, and before its address is given to another.
package ovn
