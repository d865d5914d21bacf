package agent

// chosen says whether self is among the first n of names for a subject, in an order
// that is the same on every node and different for every subject (rendezvous hashing).
// If one of the names goes, only those after it move up.
func chosen(self, subject string, names []string, n int) bool {
	mine, among, before := weight(self, subject), false, 0
	for _, name := range names {
		if name == self {
			among = true
			continue
		}
		if w := weight(name, subject); w < mine || w == mine && name < self {
			if before++; before == n {
				return false
			}
		}
	}
	return among
}

// weight is a hash (FNV-1a) whose bits are mixed once more (as SplitMix64 does): names
// of nodes differ in their last digit only.
func weight(name, subject string) uint64 {
	h := uint64(14695981039346656037)
	for _, text := range [...]string{name, "#", subject} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
