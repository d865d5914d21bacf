package conntrack

// SetLimit replaces Limit.
func SetLimit(n int) (restore func()) {
	was := limit
	limit = n
	return func() { limit = was }
}

// SetOpeningLimit replaces openingLimit.
func SetOpeningLimit(n int) (restore func()) {
	was := mostOpening
	mostOpening = n
	return func() { mostOpening = was }
}

// SetReceiveBuffer makes changes be lost earlier.
func SetReceiveBuffer(n int) (restore func()) {
	was := receiveBuffer
	receiveBuffer = n
	return func() { receiveBuffer = was }
}
