// Package compat says what a dialect is: a configuration format in which people
// describe pools and ask for addresses. It has the interfaces, and merges what
// several dialects say about one Service. Each dialect is a package below.
package compat

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/internal/lb"
)

// Dialect reads one configuration format, and words messages to its users.
type Dialect interface {
	// Name by which the configuration lists it.
	Name() lb.Dialect
	// Kinds whose objects it reads. None of them has to be installed, or readable.
	Kinds() []Kind
	// Read returns what the objects say. One that cannot be understood is a warning,
	// and stops no other.
	Read(Objects) Reading
	// Words are what it adds to sentences about its pools.
	Words() lb.Words
	// Voice words events and conditions of Services.
	Voice() Voice
}

// Reading is what the objects of a dialect say at one time. It does not change.
type Reading interface {
	Pools() []lb.Pool
	// Amend adds to r what s asks for in this dialect. Other dialects may have added
	// something already: the same thing twice is fine, different ones are not.
	Amend(r *lb.Request, s *lb.Service, in Class)
	// Same says whether o says the same about Services, be the pools others.
	Same(o Reading) bool
	// Warnings about objects.
	Warnings() []lb.Warning
}

// Class is how the Services of a class are read.
type Class struct {
	// Dialects whose pools the class may use.
	Dialects []lb.Dialect
	// Words is the dialect that the class's backend speaks, whatever its pools; "" is
	// none.
	Words lb.Dialect
	// Plans says that the class's backend can tell what it would do without doing it.
	Plans bool
	// Lingers says that what the class's backend has made for an address goes after the
	// Service has lost it.
	Lingers bool
}

// Kind of objects.
type Kind struct {
	schema.GroupVersionKind
	Object Object
	// Resource is its name in URLs where that is not the plural that one would guess.
	Resource string
	// List returns an empty list of such objects; nil if they are only watched.
	List func() runtime.Object
	// Namespace and Name of the one object that counts; "" is all of them.
	Namespace, Name string
	// Slim drops what is not read of an object; nil keeps all.
	Slim func(Object)
	// Without it, that is so; "" if that needs no telling.
	Without string
	// Quiet kinds change no pool: they are reported on.
	Quiet bool
	// Unless this version of the kind is served, which has the same objects: then only that
	// is read. To have this one, the API server might have to ask a webhook that is gone.
	Unless schema.GroupVersionKind
}

// Object of a kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects are all that can be read of a dialect's kinds. They belong to the cache:
// do not change them.
type Objects struct {
	All map[schema.GroupVersionKind][]Object
	// Unread says which kinds cannot be read, and why.
	Unread map[schema.GroupVersionKind]string
}

// What a dialect may have besides; found by type assertion.
type (
	// Ignorer says why Fairlead must not announce a Service; "" if it may.
	Ignorer interface {
		Ignores(s *lb.Service) (why string)
	}

	// Stripper is a reading that has a meaning of its own for what other dialects
	// would read in s; it returns s without that.
	Stripper interface {
		Strip(s *lb.Service, in Class) *lb.Service
	}

	// Noter has annotations on Services that Fairlead announces: key and value, ""
	// for one that shall not be there. carrier is the node that announces the first
	// address, "" if that is not known.
	Noter interface {
		Notes(s *lb.Service, v *lb.Verdict, carrier string) map[string]string
	}

	// Remarker adds to a verdict what of a Service's requests is ignored; nil is
	// nothing.
	Remarker interface {
		Remark(s *lb.Service, v *lb.Verdict) *lb.Reason
	}

	// Deprecator reports deprecated annotations of s; nil if it has none.
	Deprecator interface {
		Deprecated(s *lb.Service) *lb.Reason
	}

	// Leaver knows the marks that another controller of this dialect leaves on
	// Services: what Fairlead takes off when it is done with one.
	Leaver interface {
		// Marked says whether s has such marks; of a Service that Fairlead never
		// served (known is false), only those of Fairlead itself count.
		Marked(s *lb.Service, known bool) bool
		// Leave takes them off s, of which r is what it asked for. A Service that is
		// being deleted is only let go.
		Leave(s *lb.Service, r *lb.Request) lb.Marks
	}

	// Follower needs what agents report: which node announces an address, and what
	// DHCP servers gave. Without says what is lost where that cannot be read; Moved
	// says whether s is to be looked at again now that node announces it.
	Follower interface {
		Without() string
		Moved(s *lb.Service, node string) bool
	}
)

// Voice tells reasons by events in the words that users of a dialect know.
type Voice interface {
	// Event that tells reason. r and v are what the Service asked for and got; they
	// are nil for objects that are not Services.
	Event(reason lb.Reason, r *lb.Request, v *lb.Verdict) Event
	// Alone says whether it speaks for Services without an address where all pools
	// are of its dialect.
	Alone() bool
}

// Event as it is seen by kubectl describe.
type Event struct {
	Reason, Message string
	// Component that is named as its source; "" is Fairlead.
	Component string
}

// PlainVoice says what the reason says.
type PlainVoice struct{}

// Event is the reason itself.
func (PlainVoice) Event(reason lb.Reason, _ *lb.Request, _ *lb.Verdict) Event {
	return Event{Reason: string(reason.Code), Message: reason.Text}
}

// Alone is false: others may know better words.
func (PlainVoice) Alone() bool { return false }
