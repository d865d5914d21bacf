// Package lb is the narrow waist of Fairlead: the values into which every
// configuration format's pools and Services are translated (Pool, Request), and
// those that answer them (Verdict, Want, Outcome, Plan, Reason).
//
// It does no I/O and knows no client, no clock, no backend and no configuration
// format but our own: whoever reads objects translates them into these values at
// the edge, once, and whoever writes objects translates back.
package lb
