// Package elect chooses the node that announces an address. Every agent passes it
// the same facts and gets the same answer, so that agents need not agree by talking.
//
// It is pure: no clock, no client, no log, and the order in which nodes and
// claims are given does not matter. It does not know how the agent learned that a
// node is alive, nor what taking an address means: the caller translates Node
// objects, members and Services into these values, and acts on the answer.
//
// The order in which nodes are preferred, from first to last:
//
//  1. nodes that stay, then cordoned ones, then those whose proxy was healthy and is
//     not, then those whose agent is leaving
//  2. the sum of the weights by which the advertisements that select the node
//     prefer it
//  3. the node that has the address already, unless an advertisement lets it go
//     back (the higher epoch, if two nodes claim it)
//  4. MetalLB's hash, so that replacing MetalLB moves nothing
package elect
