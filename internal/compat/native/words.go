package native

import "fairlead.io/internal/lb"

// Words are what our own format adds to sentences about pools.
var Words = lb.Words{
	AddPool:      "a Pool (kubectl explain pool.spec)",
	AdmitService: "change the rules of a pool",
	RequestPool:  "annotation " + AnnotationPool,
	Share:        "annotation " + AnnotationShare,
}
