// Package invariant has the rules that hold while a cluster is broken at random: one
// node answers for each address, no two Services have one, none loses its own, new
// connections fail only for a while after a fault that explains it, and nothing grows
// for ever. It is told what was seen and when, and has neither a clock nor a cluster.
//
// A fault opens a window: it says what may be noticed, and for how long. What is seen
// outside of all windows is a breach, which has what happened before it.
package invariant
