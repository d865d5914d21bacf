// Package sources reads what users write, in every configuration format that the
// agent understands, and returns it as values of the model: Services, pools, and
// how addresses are advertised.
//
// It is the only part of the agent that calls internal/compat. CRDs and the
// ConfigMap of other load balancers may be missing, or the right to read them:
// the reader goes on without them and takes them up when they come.
package sources
