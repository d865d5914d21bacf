// Package stories tells in scripts what users of Fairlead see: each file in
// testdata is one story, objects below, commands on top, run against a real API
// server with a real controller beside it. Commands besides those of testscript
// (exec, stdout, cmp, …):
//
//	kubectl ARGUMENT...         kubectl, as administrator
//	apply FILE...               kubectl apply
//	service NAME CODE [ADDR...] wait until the Service has this reason and exactly these addresses
//	says NAME REGEXP            the Service's reason says this
//	told NAME CODE              wait until the Service has an event with this reason
//	pool NAME CODE              wait until the Pool has this reason
//	counts POOL TOTAL USED FREE wait until the Pool shows these numbers
//	controller start|stop       the controller; every story begins with it running
//	untouched NAME              the Service has nothing of ours
//
// NAME is namespace/name.
package stories
