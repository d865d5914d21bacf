package nft

// Intact is what is asked when notifications have been lost.
func (t *Table) Intact() bool { return t.intact() }
