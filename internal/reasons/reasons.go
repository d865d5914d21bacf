// Package reasons is the closed list of everything that Fairlead can report to users.
// It only merges the tables of the parts, for the program and for the reference page.
package reasons

import (
	"fairlead.io/internal/backend/cloudscale"
	"fairlead.io/internal/backend/cloudsigma"
	"fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/bfd"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/eip"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nodes"
	"fairlead.io/internal/reach"
	"fairlead.io/internal/routes"
)

// tables of all parts: whoever adds a backend or a configuration format adds its
// table here.
var tables = []lb.Table{lb.Common, metallb.Reasons, kubevip.Reasons, kubedc.Reasons, eip.Reasons, cloudscale.Reasons, cloudsigma.Reasons, ovn.Reasons, nodes.Reasons, reach.Reasons, routes.Reasons, bfd.Reasons}

// All reasons of all parts.
var All = merged()

func merged() lb.Table {
	all, err := lb.Merge(tables...)
	if err != nil { // two parts of one program: a test finds it
		panic(err)
	}
	return all
}
