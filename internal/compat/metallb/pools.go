package metallb

import "fairlead.io/internal/lb"

// Translate returns the pools, each with the advertisements that apply to it, and
// says what is wrong with which object.
func (o *Objects) Translate() (pools []lb.Pool, problems []Problem) { return nil, nil }

// Orphans returns the advertisements for addresses of a pool that is gone.
func (o *Objects) Orphans(pool string) []lb.Advertisement { return nil }
