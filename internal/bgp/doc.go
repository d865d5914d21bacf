// Package bgp announces prefixes to routers. It only ever sends routes: what a router
// announces is skipped by its length and kept nowhere, so a full table costs nothing.
//
// A Speaker has one session for each Peer. It connects to the router and never listens, so
// other BGP speakers of the node keep port 179. The owner says what it wants with SetPeers and
// Set, each time as a whole; sessions send the difference to what they have sent, at once and in
// few messages. Neither call waits. Each way in which a session ends is a Failure, with the
// router's own words.
//
// Messages are made and read with the codec of github.com/osrg/gobgp; sessions are ours,
// because its server cannot hand an open session to another process (see Freeze), waits
// seconds before it connects again, and brings its own table and API.
//
// The package knows nothing of Kubernetes, of Services or of who decides what is announced.
package bgp
