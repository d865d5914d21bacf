// Package simulator is what simulated clouds share: faults on request, a log of
// requests, an administration over HTTP, tables of objects, a clock that tests
// can bend, and running as a program. A simulated cloud is an API behind a Front;
// the sandbox puts clusters into it as a Cloud.
//
// The package knows no particular cloud, and nothing of Fairlead or Kubernetes.
package simulator
