// Package ovsdb is a client of the Open vSwitch Database Management Protocol (RFC 7047),
// with the extension monitor_cond that ovsdb-server(7) describes. It connects to the
// leader among several servers, keeps a monitor on it, and sends transactions. It does
// not know what a database is about, keeps no rows, and does not know Kubernetes.
//
// It is used instead of github.com/ovn-kubernetes/libovsdb, version 0.8.1, for three reasons:
//
//   - Speed. With 1,000 load balancers on one router, libovsdb commits 340 to 390
//     transactions per second, because its cache copies the router's growing set of
//     references at every change. Plain JSON-RPC commits 2,400.
//   - Behaviour. libovsdb panics when its reconnect backoff gives up, empties its cache on
//     reconnect without saying which rows are gone, drops events when a handler is slow,
//     and leaves a goroutine behind for each connection to a leader.
//   - Dependencies. Its client package imports a test library.
//
// What is needed is small: transact, monitor_cond with update2, and echo.
package ovsdb
