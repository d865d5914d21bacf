// Package elect says whose an address is. Every agent asks it with the same
// facts and gets the same answer, so that nobody has to be asked.
//
// It is pure: no clock, no client, no log, and the order in which nodes and
// claims are given does not matter. It does not know how anybody learned that a
// node is alive, nor what taking an address means; whoever calls it translates
// Node objects, members and Services into these values, and acts on the answer.
//
// The order in which nodes are preferred, from first to last:
//
//  1. nodes that stay, then cordoned ones, then such whose agent is leaving
//  2. the sum of the weights by which the advertisements that select the node
//     prefer it
//  3. who has the address already, unless an advertisement lets it go back (by
//     epoch, where two say so)
//  4. MetalLB's hash, so that replacing MetalLB moves nothing
package elect
