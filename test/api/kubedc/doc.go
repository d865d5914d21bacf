// Package kubedc tells in scripts what users of kube-dc see, with a real API server, a
// real northbound database with ovn-northd, and a stand-in of kube-ovn. Each file in
// testdata is one story. It begins with the projects shalb-dev and shalb-prod, whose
// routers have 168.119.17.51 and 168.119.17.50 in the subnet ext-public, with a subnet
// ext-cloud, and with namespaces nowhere and annotated that are no projects. A controller
// serves Services without a class, and those of class pooled from pools; it has served the
// projects' EIps default-gw. Commands besides those of testscript (exec, stdout, cmp, …),
// which have the endpoint of the database in $NB:
//
//	kubectl ARGUMENT...         kubectl, as administrator
//	apply FILE...               kubectl apply
//	service NAME CODE [ADDR...] wait until the Service has this reason and exactly these addresses,
//	                            with ipMode Proxy; * is any address
//	untouched NAME              wait until the Service has nothing of ours
//	says NAME REGEXP            wait until the reason of the Service says this
//	told NAME CODE [REGEXP]     wait until the Service has an event with this reason, that says this
//	times NAME CODE NUMBER      wait until the Service has so many events with this reason
//	aged NAME                   wait until whatever is created next is younger, by the second
//	has KIND PATTERN [REGEXP..] wait until one object has a name like that, and is, as JSON, like
//	                            all of these; KIND is eip, fip, ovn-eip, vpc, subnet, project,
//	                            service or endpointslice
//	status KIND PATTERN JSON    somebody writes the status of that object
//	none KIND PATTERN           wait until no object has such a name
//	rows NUMBER [REGEXP...]     wait until the database has so many load balancers, and for each
//	                            REGEXP there is one like that: name,protocol,vips,options,external_ids
//	rules NUMBER [REGEXP...]    wait until the database has so many ACLs, and for each REGEXP there is
//	                            one like that: direction,priority,action,match
//	attached router|switch NAME wait until these load balancers are attached, and no others
//	            [ROW...]
//	metric REGEXP               wait until a line of the controller's metrics is like this
//	mark                        remember this moment
//	unwritten [PART...]         since then the controller wrote nothing to the API server, but to
//	                            paths that contain one of these; $ is their end
//	writes NUMBER PART          wait until since then the controller wrote so often to such paths
//	nbctl ARGUMENT...           somebody uses ovn-nbctl
//	kube-ovn full|free|restart  the stand-in has no addresses left; has some again; deletes all load
//	                            balancers, as kube-ovn-controller does when it starts
//	database stop|start         the northbound database dies; runs again
//	northd stop                 ovn-northd dies
//	kinds remove|install        kube-dc's and kube-ovn's kinds are removed; are installed
//	controller start            start a controller, with the configuration FILE in
//	   [--config FILE]          place of the default one, one that only tells what it would do, or
//	   [--dry-run]              one that waits so long for others, and not half a minute
//	   [--patience DURATION]
//	controller stop             stop it
package kubedc
