// Package stories tells in scripts what users of Fairlead see: each file in
// testdata is one story, objects below, commands on top, run against a real API
// server with a real controller beside it. Commands besides those of testscript
// (exec, stdout, cmp, …):
//
//	kubectl ARGUMENT...         kubectl, as administrator
//	apply FILE...               kubectl apply
//	service NAME CODE [ADDR...] wait until the Service has this reason and exactly these addresses
//	says NAME REGEXP            wait until the reason of the Service, or of the Pool, says this
//	told NAME CODE [REGEXP]     wait until the object has an event with this reason, that says this
//	pool NAME CODE              wait until the Pool has this reason
//	counts POOL TOTAL USED FREE wait until the Pool shows these numbers; of an ipaddresspool:
//	                            assigned and available IPv4 addresses, then IPv6
//	metric REGEXP               wait until a line of the controller's metrics is like this
//	state RESULT [REGEXP]       wait until the ConfigurationState of the controller says this
//	annotated NAME KEY [VALUE]  wait until the object has this annotation; without VALUE, has it not
//	unannounced NAME CODE       wait until the Service says that nobody answers for one of its
//	            [REGEXP]        addresses, for this reason, in a sentence like this
//	announced NAME              wait until it does not say that any more
//	agent NAME [STATUS REASON   wait until the Agent's condition Ready has this status and
//	       ANNOUNCED LISTED]    reason, and it announces and lists so many addresses; or is gone
//	untouched NAME              the Service has nothing of ours
//	gone NAME                   wait until the Service is
//	aged NAME                   wait until whatever is created next is younger, by the second
//	times NAME CODE NUMBER      wait until the object has so many events with this reason
//	writes NAME NUMBER          wait until controllers have written the Service so often
//	controller start            start a controller, with the configuration FILE in
//	           [--config FILE]  place of none, with one class from MetalLB's pools and
//	       [--lb-class CLASS]   ours, with another namespace for MetalLB's objects, or
//	[--metallb-namespace NAME]  in this environment; every story begins with one
//	[VARIABLE=VALUE...]         running, those in testdata/kubevip in the environment of
//	                            kube-vip's cloud provider, those in testdata/cloudscale
//	                            in that of cloudscale's controller
//	controller stop             stop it
//
// Of Services that kube-vip announces:
//
//	given NAME ADDRS [IFACE]    wait until the Service was given these addresses (with commas
//	                            between them) and all else that kube-vip needs is written on it
//	honoured NAME ADDRS         the same where the Service asks for them itself
//	refused NAME CODE [ADDRS]   wait until the Service has this reason, and nothing but what it
//	                            asks for
//
// Of Services in a simulated cloudscale.ch, with two nodes:
//
//	cloud has KIND NUMBER       wait until the cloud has so many load-balancers, pools,
//	          [REGEXP...]       members, listeners, health-monitors or floating-ips, and
//	                            each of them, as JSON, is like all of these
//	cloud node NAME             a server is added, and joins the cluster
//	cloud floating-ip PREFIX    a floating IP is added to the project
//	cloud edit KIND JSON        somebody changes all objects of this kind in the control panel
//	cloud mark                  remember this moment
//	cloud unchanged             nothing was written to the cloud since then
//	reported NAME CODE [REGEXP] the same as told, of a Service that may be deleted
//	controller start [--dry-run] [--remove-orphans] [--cloud-resync TIME]
//
// Of MetalLB's CRDs:
//
//	metallb install [PLURAL...] install MetalLB's kinds, or some of them; "bare": as MetalLB
//	                            defines them, whose statuses have no conditions; "old": with
//	                            BGPPeers of v1beta1 alone; every story begins with ours
//	metallb remove              remove all of MetalLB's kinds
//
// NAME is namespace/name of a Service, the name of a Pool, or kind/name of an object
// of MetalLB's kinds (ipaddresspool/lan) in metallb-system; in another namespace it is
// kind/namespace/name. configmap/kubevip is the one of kube-vip's cloud provider.
package stories
