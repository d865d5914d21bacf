// Package cloudsigma simulates the cloud of CloudSigma: its API 2.0 for servers,
// their network cards, IP addresses, tags and subscriptions, the endpoints that
// give tokens, the firewalls of servers, and what goes wrong with all of them. It
// keeps everything in memory.
//
// # Start
//
//	sim := cloudsigma.New(cloudsigma.Options{Token: "secret"})
//	defer sim.Close()
//	server := httptest.NewServer(sim) // CLOUDSIGMA_API_ENDPOINT; or:
//	client := sim.Client()            // an *http.Client without a network, to any host
//
// A Simulator is an http.Handler for paths that begin with /api/2.0/, for
// Keycloak's and the impersonation endpoint, and for its own administration below
// /sandbox/ (see admin.go). What it has in common with other clouds is in package
// simulator.
//
// # Seed
//
//	sim.AddServer(cloudsigma.NewServer{Name: "node1", NICs: []cloudsigma.NewNIC{{Mode: "dhcp", Addr4: "*"}}})
//	sim.Subscribe(netip.MustParseAddr("192.0.2.7"))
//
// # Look, and edit as somebody else would
//
//	sim.Server(id), sim.Servers(), sim.IPs(), sim.Tags(), sim.Tagged("cluster:x")
//	sim.AddTag("cluster:x", "192.0.2.7")         // also a second tag of a name
//	sim.Before("PUT", cloudsigma.Tags, "", func() { … }) // between somebody's GET and PUT
//	sim.EndSubscription(addr), sim.Reboot(id), sim.SetStatus(id, "paused"), sim.SetRouted(addr, false)
//	sim.EndSessions()                            // every token of OAuth is refused
//	sim.Turn(func(k *cloudsigma.Knobs) { k.Running = "ignore" })
//
// # Firewalls
//
//	sim.Passes(id, addr)                         // now
//	sim.Ports()                                  // of all servers; OnChange says when to look again
//
// Faults and the log are those of package simulator. What the API does where nobody
// has written it down is a knob, or the stricter of two ways.
//
// The package knows nothing of Fairlead, Kubernetes or Fairlead's own client
// of this API, so that no mistake is in both.
package cloudsigma
