// Package native reads Fairlead's own configuration format: Pool objects and the
// fairlead.io annotations on Services. It turns them into lb values and never fails:
// what it cannot understand becomes a reason on that one object.
package native
