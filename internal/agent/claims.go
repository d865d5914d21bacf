package agent

import (
	"net/netip"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/member"
)

// hearGroup takes over what the group has to say. If only claims have changed, only the
// addresses that they are about are decided about again: with thousands of addresses,
// looking at all of them whenever one moves would be too slow.
func (a *agent) hearGroup() {
	members, claims := a.group.Changes()
	if members || !a.synced || a.solitude != nil {
		a.membersDirty = true // look reads all claims
		return
	}
	for key, all := range claims {
		if a.claims[key] = all; len(all) == 0 {
			delete(a.claims, key)
		}
		if key.Lease != "" {
			a.leases.LookAll()
		} else if a.held[key.Addr] != nil || len(a.directory.addresses[key.Addr]) > 0 {
			a.dirty[key.Addr] = true
		}
	}
	a.presenceDirty = true
}

// claim has the other agents told what this node claims of addr.
func (a *agent) claim(addr netip.Addr) { a.claimsDirty[addr] = true }

// publishClaims tells the other agents what this node has.
func (a *agent) publishClaims() {
	if a.group == nil { // until there is one; then all are told
		clear(a.claimsDirty)
		return
	}
	if !a.allClaimsDirty && len(a.claimsDirty) == 0 {
		return
	}
	var mine []member.Claim
	add := func(addr netip.Addr, h *holding) {
		mine = append(mine, member.Claim{Key: member.Addr(addr), Node: a.node, Epoch: h.epoch, Up: h.up, Refused: h.unfit})
	}
	if a.allClaimsDirty {
		mine = a.leases.Claims()
		for addr, h := range a.held {
			add(addr, h)
		}
		a.group.SetClaims(mine)
	} else {
		var released []member.Key
		for addr := range a.claimsDirty {
			if h := a.held[addr]; h != nil {
				add(addr, h)
			} else {
				released = append(released, member.Addr(addr))
			}
		}
		a.group.ChangeClaims(mine, released)
	}
	a.allClaimsDirty = false
	clear(a.claimsDirty)
}

// claimed returns what is claimed of addr.
func (a *agent) claimed(addr netip.Addr) []member.Claim { return a.claims[member.Addr(addr)] }

// claimsOf returns what is claimed of addr: by the others as they say, by this
// node as it is; and which node had it last, "" if none is known or the last that
// claimed it has found, or is finding out, whether another host uses it. Claims of
// lost nodes that are presumed to be alive stand.
func (a *agent) claimsOf(addr netip.Addr, presumed map[string]bool) (claims []elect.Claim, last string) {
	var mine *elect.Claim
	if h := a.held[addr]; h != nil {
		mine = &elect.Claim{Node: a.node, Epoch: h.epoch, Up: h.up}
	}
	claims, up, down := claimsWith(a.claimed(addr), a.node, mine, presumed)
	if up.Node != "" {
		a.had[addr] = up.Node
	}
	if down > up.Epoch {
		return claims, ""
	}
	return claims, a.had[addr]
}

// claimsWith returns claims as the election wants them, where mine is what node
// claims itself, if anything; the highest claim of another node that is or was up;
// and the highest epoch of one that is not.
func claimsWith(all []member.Claim, node string, mine *elect.Claim, presumed map[string]bool) (claims []elect.Claim, up elect.Claim, down uint64) {
	var own uint64
	for _, c := range all {
		if c.Node == node {
			own = max(own, c.Epoch)
			continue
		}
		claims = append(claims, elect.Claim{Node: c.Node, Epoch: c.Epoch, Up: c.Up && (c.Standing != member.Orphaned || presumed[c.Node])})
		switch {
		case !c.Up:
			down = max(down, c.Epoch)
		case c.Epoch >= up.Epoch:
			up = elect.Claim{Node: c.Node, Epoch: c.Epoch}
		}
	}
	if mine != nil {
		claims = append(claims, *mine)
	} else if own > max(up.Epoch, down) { // of an earlier agent on this node
		claims = append(claims, elect.Claim{Node: node, Epoch: own})
	}
	return claims, up, down
}
