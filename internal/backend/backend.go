// Package backend says what a backend is: it makes one Service real, wherever the
// cluster runs. It has interfaces only; each backend is a package below.
package backend

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"fairlead.io/internal/lb"
)

// Backend makes one Service real. It is safe for concurrent use, except for calls
// with the same Service.
type Backend interface {
	// Sync takes one look at a Service and does what can be done now. It never
	// waits: the outcome says when to look again. An error is also reported in the
	// outcome; without Outcome.Again it is retried like any error.
	Sync(ctx context.Context, w lb.Want) (lb.Outcome, error)
	// Forget drops what is remembered about a Service that no longer exists.
	Forget(uid types.UID)
}

// What a backend may have besides; found by type assertion.
type (
	// Holder says what a Service has, for classes with pools. One without it has
	// what its status publishes.
	Holder interface {
		Held(s *lb.Service) lb.Held
	}

	// Marker says whether a Service has something that the backend wrote. It is
	// asked about Services whose class is not served.
	Marker interface {
		Marked(s *lb.Service) bool
	}

	// Speaker speaks a dialect in which all Services of its classes are read, whatever
	// their pools.
	Speaker interface {
		Words() lb.Dialect
	}

	// Needs is what a backend's Want has besides the Service.
	Needs interface {
		Needs() lb.Needs
	}

	// Claims names what a Service asks for that another may ask for as well. When it
	// changes, all Services of the backend are looked at again.
	Claims interface {
		Claim(s *lb.Service) string
	}

	// Inventory has pools of its own, such as the addresses of a cloud account.
	// services are all of its classes. On an error the last pools stay; while there
	// never were any, the class waits.
	Inventory interface {
		Pools(ctx context.Context, services []lb.Service) ([]lb.Pool, error)
	}

	// Runner runs in the leader until ctx ends and wakes Services for which something
	// has changed outside; no names wakes all of the backend's.
	Runner interface {
		Run(ctx context.Context, wake func(...types.NamespacedName)) error
	}

	// Vanisher removes what it made for a Service that no longer exists, or is not its own
	// any more: without a finalizer there was no Sync to do so. Until it succeeds, the
	// Service's addresses are not free.
	Vanisher interface {
		Vanished(ctx context.Context, service types.NamespacedName) error
	}

	// Importer knows, at start, what Services have. services are all of type
	// LoadBalancer, of any class.
	Importer interface {
		Import(ctx context.Context, services []lb.Service) (map[types.UID]lb.Held, error)
	}

	// Witness recognises what a Fairlead controller wrote on Services by a key in a
	// Secret. Open gets the key before anything is imported, and is retried until it
	// succeeds; first says that nothing was signed with it yet. Then what Services say
	// is believed for once, Sync signs it for Services that are served and Note for
	// those that are left alone, and Close ends that.
	Witness interface {
		Open(ctx context.Context, secrets typedcorev1.SecretInterface) (first bool, err error)
		Note(s *lb.Service) lb.Marks
		Close(ctx context.Context, secrets typedcorev1.SecretInterface) error
	}

	// Reaper finds what was made for Services that no longer exist. Whether it is
	// removed is for the operator to say; Remove does it.
	Reaper interface {
		Orphans(ctx context.Context, exists lb.Exists) ([]lb.Orphan, error)
		Remove(ctx context.Context, orphans []lb.Orphan) (lb.Plan, error)
	}
)
