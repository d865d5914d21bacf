// Package cloudscale simulates the cloud of cloudscale.ch: its REST API, its
// load balancers and what goes wrong with them. It keeps everything in memory.
//
// # Start
//
//	sim := cloudscale.New(cloudscale.Options{Token: "secret"})
//	defer sim.Close()
//	server := httptest.NewServer(sim) // CLOUDSCALE_API_URL; or:
//	client := sim.Client()            // an *http.Client without a network, for testing/synctest
//
// A Simulator is an http.Handler for paths that begin with /v1/, and for its
// own administration below /sandbox/ (see admin.go), both with the token. What
// it has in common with other clouds (faults, log, tables) is in package simulator.
//
// # Seed
//
//	network := sim.AddNetwork(cloudscale.Network{Name: "lan", Zone: "lpg1"})
//	subnet := sim.AddSubnet(cloudscale.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.0.0.0/24")})
//	node := sim.AddNode("node1", "lpg1", subnet.UUID, netip.MustParseAddr("10.0.0.11"))
//	sim.AddServer(cloudscale.Server{…})         // with any interfaces
//	sim.AddFloatingIP(cloudscale.FloatingIP{…})
//
// # Look, and edit as somebody else would
//
//	sim.Servers(), sim.LoadBalancers(), sim.Pools(), sim.Members(pool), sim.Listeners(), sim.HealthMonitors(), sim.FloatingIPs()
//	sim.Delete(cloudscale.Pools, id)             // at once, with all that depends on it
//	sim.Edit(cloudscale.Listeners, id, `{"allowed_cidrs": []}`)
//	sim.SetReachable(address, false)             // health monitors find it down
//	sim.Settle()                                 // whatever is changing has changed
//
// # Time
//
// A load balancer is "changing" for Options.Creating after it was made and for
// Options.Changing after each change of it or of anything that belongs to it.
// What happens to a change in that time is said by Options.Busy. Nothing runs
// in the background: states follow from the clock when somebody asks.
//
// # Faults
//
//	sim.Fail(cloudscale.Fault{Method: "POST", Path: "/v1/load-balancers", Status: 503})
//	sim.Fail(cloudscale.Fault{Kind: cloudscale.Members, Skip: 1, Lose: true}) // the second answer is lost
//
// # Packets
//
//	forwarder := sim.Forward(cloudscale.ForwardOptions{}) // until Close
//
// listens at the addresses of load balancers, passes connections and datagrams
// on, and checks members for real. In a test, let Options.Public be a part of
// 127.0.0.0/8, and members be on 127.0.0.1.
//
// # Log
//
//	sim.Log()                                    // every request since the last ResetLog
//	sim.Counts()[cloudscale.Call{"POST", cloudscale.Members}]
//
// What the API does where nobody has written it down is marked "assumed" in
// the code; it is what OpenStack's Octavia does, or the stricter of two ways.
//
// The package knows nothing of Fairlead, Kubernetes or Fairlead's own client
// of this API, so that no mistake is in both.
package cloudscale
