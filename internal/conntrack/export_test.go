package conntrack

// SetLimit replaces Limit.
func SetLimit(n int) (restore func()) {
	was := limit
	limit = n
	return func() { limit = was }
}

// SetOpeningLimit replaces OpeningLimit.
func SetOpeningLimit(n int) (restore func()) {
	was := openingLimit
	openingLimit = n
	return func() { openingLimit = was }
}

// SetReceiveBuffer makes changes be lost earlier.
func SetReceiveBuffer(n int) (restore func()) {
	was := receiveBuffer
	receiveBuffer = n
	return func() { receiveBuffer = was }
}
