// Package cloud is what clients of all clouds share: a REST client that retries
// what is safe to retry and reports when nobody knows whether a write was done,
// authentication, errors and what they mean, a cache of lists, locks, changes that
// wait for each other and are made together, and how long to wait for a slow change. It knows no particular cloud, nothing of
// Kubernetes, and nothing of what is wanted in a cloud.
//
// Clouds have SDKs. We use none, because those that we read neither wait nor
// retry, lose the status of an answer that is not JSON, do not tell a write that
// failed from one whose outcome is unknown, cannot set a field to nothing, or
// list only the first page. We need a tenth of what they have.
//
// A call takes at most Options.Timeout for each attempt, and pauses for a second
// or two altogether between attempts. Whatever takes longer is an Error, and
// RetryAfter says when to come back.
package cloud
