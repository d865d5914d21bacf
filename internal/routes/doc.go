// Package routes decides which policy routes the router of a Vpc needs, so that replies of
// a Service's backends leave through the external network that the request came from. The
// default external network needs none. It is pure: package projects writes what it
// decides.
//
// A policy route cannot say whose it is. An annotation of the Vpc, which is written
// together with the routes, lists for each Service those that were made here. Routes of
// others are never changed or removed, even if they look the same.
package routes
