package simulator

import (
	"fmt"
	"math/rand/v2"
)

// UUID returns a new one, of version 4.
func UUID(random *rand.Rand) string {
	high, low := random.Uint64(), random.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&0xffffffffffff)
}
