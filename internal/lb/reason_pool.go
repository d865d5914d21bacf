package lb

// Reasons on pools.
const (
	PoolReady    Code = "PoolReady"
	PoolDisabled Code = "PoolDisabled"
	PoolOverlap  Code = "PoolOverlap"
	PoolInvalid  Code = "PoolInvalid"
)

var poolReasons = Table{
	PoolReady: {On: "Pool", Ready: true,
		Means: "The pool hands out addresses.",
		Do:    "Nothing.",
		Text:  "The pool hands out addresses."},
	PoolDisabled: {On: "Pool",
		Means: "The pool is disabled. It hands out nothing new; Services keep the addresses that they have.",
		Do:    "Remove disabled: true to use the pool again, or delete the pool once no Service has an address of it.",
		Text:  "The pool is disabled: it hands out nothing new, and Services keep the addresses that they have. Remove disabled: true to use it again."},
	PoolOverlap: {On: "Pool", Warning: true,
		Means: "The pool contains addresses of an older pool. It hands out nothing until one of the two is changed.",
		Do:    "Change or delete one of the two pools. The other one then works without further action.",
		Text:  "Pool %q is refused: its addresses %s overlap with pool %q. Change or delete one of them.", Sample: []any{"lab", "192.0.2.0-192.0.2.7", "edge"}},
	PoolInvalid: {On: "Pool", Warning: true,
		Means: "The pool has a value that cannot be used. It hands out nothing new; Services keep the addresses that they have.",
		Do:    "Correct the value that the sentence names.",
		Text:  "The pool is refused: %s. Correct it.", Sample: []any{`addresses[0]: "192.0.2.300" is not an IP address`}},
}
