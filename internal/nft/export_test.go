package nft

import "time"

// Intact is what is asked when notifications have been lost.
func (t *Table) Intact() bool { return t.intact() }

// SetCarryTime makes connections end earlier.
func (t *CarryTable) SetCarryTime(d time.Duration) { t.time = d }

// SetCarryLimit makes fewer connections be too many.
func (t *CarryTable) SetCarryLimit(n int) { t.most = n }
