package controller

import (
	"slices"
	"time"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

const (
	// silenceWait is how long nobody must answer for an address, for the same reason,
	// before its Services say so: a move to another node is over by then.
	silenceWait = 5 * time.Second
	// unheardWait is how long it must last if only kubelets are silent: agents that
	// live object after half a minute at the latest.
	unheardWait = 45 * time.Second
	// installWait is how long there may be no agent at all: an installation begins
	// with the image being pulled on all nodes.
	installWait = time.Minute
)

// everyAddress is the key of a silence of all addresses.
const everyAddress = ""

// silence is an address for which nobody answers.
type silence struct {
	reason   lb.Reason
	services []string      // that have the address, as far as agents say
	wait     time.Duration // how long it must last to be told
}

// findSilence returns the addresses for which nobody answers, or everyAddress if no
// agent is left. lost are the agents that do not answer, known the reasons that may be
// told to users.
func findSilence(list []v1alpha1.Agent, lost map[string]lb.Reason, known lb.Table) map[string]silence {
	var silent, alive []string
	found, announced, all, wait := map[string]silence{}, map[string]bool{}, true, silenceWait
	for i := range list {
		a := &list[i]
		if why, is := lost[a.Name]; is || inactive(a) {
			silent = append(silent, a.Name)
			if why.Code == lb.AgentUnheard {
				wait = unheardWait
			}
			continue
		}
		alive = append(alive, a.Name)
		for _, address := range a.Status.Addresses {
			announced[address.Address] = true
		}
		all = all && int(a.Status.Announced) <= len(a.Status.Addresses)
		for _, u := range a.Status.Unannounced {
			if _, twice := found[u.Address]; !twice {
				found[u.Address] = silence{reported(&u, known), u.Services, silenceWait}
			}
		}
	}
	switch {
	case len(list) == 0:
		return map[string]silence{everyAddress: {reason: lb.NoAgent.With("no agent has reported yet"), wait: installWait}}
	case len(alive) == 0:
		slices.Sort(silent)
		return map[string]silence{everyAddress: {reason: lb.NoAgent.With("the agents of " + prose.Few(silent) + " do not answer or have stopped"), wait: wait}}
	}
	for i := range list {
		why, is := lost[list[i].Name]
		if !is || !all { // a list that is cut tells nothing by what it lacks
			continue
		}
		wait := silenceWait
		if why.Code == lb.AgentUnheard {
			wait = unheardWait
		}
		for _, u := range list[i].Status.Unannounced { // until another agent reports it
			if _, told := found[u.Address]; !told {
				found[u.Address] = silence{reported(&u, known), u.Services, silenceWait}
			}
		}
		for _, address := range list[i].Status.Addresses {
			if _, told := found[address.Address]; !told {
				found[address.Address] = silence{lb.AnnouncerLost.With(address.Address, list[i].Name), address.Services, wait}
			}
		}
	}
	for address := range announced { // the agent that reports otherwise is behind, or apart
		delete(found, address)
	}
	return found
}

// inactive agents say themselves that they announce nothing, whatever there is.
func inactive(a *v1alpha1.Agent) bool {
	for _, c := range a.Status.Conditions {
		if c.Type == agentReady {
			return c.Reason == string(lb.AgentLeaving) || c.Reason == string(lb.AgentIsolated)
		}
	}
	return false
}

// reported is the reason that an agent gives. A code that is not of our list is not
// passed on: alerts and documentation have only those.
func reported(u *v1alpha1.Unannounced, known lb.Table) lb.Reason {
	code := lb.Code(u.Reason)
	if known[code].On != "Service" {
		code = lb.NotAnnounced
	}
	r := lb.Rebuilt(code, u.Message, false)
	if r.Text == "" {
		r.Text = "Address " + u.Address + " is not announced."
	}
	return r
}
