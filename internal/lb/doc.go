// Package lb is the narrow waist of Fairlead: the few words in which every
// dialect's pools and Services are told (Pool, Request), and in which every
// decision about them is answered (Verdict, Reason).
//
// It does no I/O and knows no client, no clock and no dialect: whoever reads
// objects translates them into these values at the edge, once, and whoever
// writes objects translates back.
package lb
