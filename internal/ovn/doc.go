// Package ovn makes load balancers in the northbound database of OVN, for one Service at a
// time. It knows neither Kubernetes objects nor where a Service's router comes from.
//
// [DB] keeps a copy of the database by a monitor. What a Service is to have, a [Service],
// is always compared with that copy, never with a memory of what was written before:
// [Examine] is a pure function from both to a plan. [DB.Commit] makes the plan real in one
// transaction, together with the plans of other Services that wait at the same time. The
// copy has what was committed when Commit returns.
//
// [DB.Watch] reports Services whose rows, virtual addresses, options or attachments
// somebody else has changed, within milliseconds: kube-ovn-controller deletes all load
// balancers of others whenever it starts.
//
// Rows say whose they are in external_ids. Rows of others are never changed, except for
// one case: a row with the name and the address of a Service that another controller has
// left behind is taken over in place, if the caller allows it.
//
// The client is package ovsdb, which says why it is not libovsdb. Only columns that exist
// since OVN 23.03 are needed; others are used where the database has them.
package ovn
