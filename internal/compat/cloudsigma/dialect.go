package cloudsigma

import (
	"fmt"
	"slices"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// Format is the name of this configuration format, and of its pools.
const Format lb.Dialect = "cloudsigma"

// The two pools.
const (
	Static  = "static"
	Dynamic = "dynamic"
)

// Dialect is the format of CloudSigma's cloud controller manager: one annotation. The
// pools are in the cloud.
type Dialect struct{}

var _ compat.Dialect = Dialect{}

// Name is cloudsigma.
func (Dialect) Name() lb.Dialect { return Format }

// Words name what the pools are made of.
func (Dialect) Words() lb.Words {
	return lb.Words{
		AddPool:      "a subscription for an IP address in CloudSigma's control panel",
		AddAddress:   "add IP addresses to the CloudSigma account",
		AdmitService: "subscribe to an IP address in CloudSigma's control panel",
		RequestPool:  "annotation " + AnnotationPool,
		Share:        "annotation " + native.AnnotationShare,
	}
}

// Voice is plain: the original wrote no events.
func (Dialect) Voice() compat.Voice { return compat.PlainVoice{} }

// Kinds are none.
func (Dialect) Kinds() []compat.Kind { return nil }

// Read has nothing to read.
func (Dialect) Read(compat.Objects) compat.Reading { return reading{} }

type reading struct{}

func (reading) Pools() []lb.Pool         { return nil }
func (reading) Same(compat.Reading) bool { return true }
func (reading) Warnings() []lb.Warning   { return nil }

// Amend adds the pool that the annotation names. For a Service that has an address,
// the annotation counts only if it is to be moved.
func (reading) Amend(r *lb.Request, s *lb.Service, in compat.Class) {
	asked, _ := Pool(s)
	switch {
	case !slices.Contains(in.Dialects, Format) || asked == "":
	case r.Pool == "" && len(s.Published()) > 0 && !r.Reallocate:
	case r.Pool == "":
		r.Pool, r.Dialects = asked, compat.First(Format, r.Dialects)
	case r.Pool != asked:
		compat.Invalid(r, lb.InvalidRequest.With(fmt.Sprintf("Annotation %s requests %q, and annotation %s requests %q; remove one of them", native.AnnotationPool, r.Pool, AnnotationPool, asked)))
	}
}
