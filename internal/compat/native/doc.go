// Package native reads Fairlead's own words: the kind Pool and the fairlead.io
// annotations on Services. It turns them into lb values and never fails: what
// it cannot understand becomes a reason on that one object.
package native
