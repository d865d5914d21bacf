package agent

import (
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/api/v1alpha1"
)

// proxyState is what is known of kube-proxy on this node, in the words of the Agent
// object.
type proxyState string

const (
	proxyHealthy proxyState = v1alpha1.KubeProxyHealthy
	// proxyUnhealthy: it was healthy since the node was started, and is not now. Its
	// rules still forward: the node comes after healthy ones.
	proxyUnhealthy proxyState = v1alpha1.KubeProxyUnhealthy
	// proxyNever: it was not healthy since the node was started, so nothing forwards yet.
	proxyNever proxyState = v1alpha1.KubeProxyNever
	// proxyAbsent: the node works without kube-proxy.
	proxyAbsent proxyState = v1alpha1.KubeProxyAbsent
)

// eligible says whether the node forwards as far as kube-proxy is concerned.
func (s proxyState) eligible() bool { return s == proxyHealthy || s == proxyAbsent }

const (
	// proxyPatience is how many answers in a row must differ before the state does:
	// kube-proxy is restarted in upgrades, and its rules stay meanwhile.
	proxyPatience = 6
	// proxyGone is after how long a kube-proxy is forgotten that nobody hears and that
	// has left no rules.
	proxyGone = 5 * time.Minute
	// proxyBoot is how long a node waits for one after its start: clusters without
	// kube-proxy should not wait for long.
	proxyBoot = time.Minute
)

// proxyAnswer is what the health check said.
type proxyAnswer uint8

const (
	proxySilent proxyAnswer = iota // nothing listens
	proxyBad                       // it says that it is not healthy
	proxyGood
)

// proxyRecord follows the answers. It is pure: no clock, no network.
type proxyRecord struct {
	state proxyState // "" before the first answer
	// before is what an earlier agent of this node knew, "" if nothing.
	before proxyState
	// booting: the node was started a moment ago, so kube-proxy may be about to come.
	booting bool

	was          bool // healthy since the node was started
	good, missed int  // answers in a row
	silent       time.Time
}

// take takes over an answer. Rules says whether the kernel has rules of kube-proxy: it
// was healthy once since the node was started.
func (r *proxyRecord) take(answer proxyAnswer, rules bool, now time.Time) {
	if answer == proxyGood {
		r.was, r.missed, r.silent = true, 0, time.Time{}
		if r.good++; r.state != proxyUnhealthy || r.good >= proxyPatience {
			r.state = proxyHealthy
		}
		return
	}
	r.good = 0
	r.missed++
	if r.was = r.was || rules; answer == proxyBad {
		r.silent = time.Time{}
	} else if r.silent.IsZero() {
		r.silent = now
	}
	switch {
	case r.state == "" && r.was:
		r.state = proxyHealthy // this may be its restart
	case r.state == "" || r.missed >= proxyPatience:
		r.state = r.missing(rules, now)
	}
}

// missing returns the state of a proxy that has not been healthy for a while.
func (r *proxyRecord) missing(rules bool, now time.Time) proxyState {
	silent, patience := !r.silent.IsZero(), proxyBoot
	if r.was {
		patience = proxyGone
	}
	switch {
	case silent && !rules && now.Sub(r.silent) >= patience:
		r.was, r.booting, r.before = false, false, proxyAbsent
		return proxyAbsent
	case r.was:
		return proxyUnhealthy
	case !silent:
		return proxyNever
	case r.before == proxyAbsent:
		return proxyAbsent
	case r.booting || r.before == proxyNever:
		return proxyNever
	case r.before != "": // it had rules, and somebody removed it and them
		return proxyUnhealthy
	}
	return proxyAbsent
}

// booting says whether the node was started less than proxyBoot ago.
func booting() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) == nil && time.Duration(info.Uptime)*time.Second < proxyBoot
}
