package main

import (
	"log/slog"

	"github.com/spf13/pflag"
)

// foreignFlag is a flag of a program that Fairlead stands in for, which has
// nothing to set here. Manifests that pass it go on working; it is not shown in
// the help.
type foreignFlag struct {
	name string
	why  string // the end of a sentence that begins with the flag
	bare bool   // may stand without a value
}

// addForeign has f take the flags of table, unless it takes them already.
func addForeign(f *pflag.FlagSet, table ...foreignFlag) {
	for _, n := range table {
		if f.Lookup(n.name) != nil {
			continue
		}
		f.String(n.name, "", "not needed: "+n.why)
		flag := f.Lookup(n.name)
		flag.Hidden = true
		if n.bare {
			flag.NoOptDefVal = "true"
		}
	}
}

// tellForeign logs a line for each flag of table that was given.
func tellForeign(f *pflag.FlagSet, log *slog.Logger, table ...foreignFlag) {
	for _, n := range table {
		if f.Changed(n.name) {
			log.Info("a flag has no effect, and is not needed: "+n.why, "flag", "--"+n.name)
		}
	}
}
