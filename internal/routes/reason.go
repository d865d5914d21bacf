package routes

import "fairlead.io/internal/lb"

// RoutesLimited is about Services that need more policy routes than they may have.
const RoutesLimited lb.Code = "RoutesLimited"

// Reasons of this package.
var Reasons = lb.Table{
	RoutesLimited: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service has an address of an external network that is not the project's default one. The replies of each of its endpoints need a policy route in the Vpc there, and one Service gets at most 500. Connections to the other endpoints fail.",
		Do:    "Use fewer endpoints or ports, divide them between several Services, or use an address of the project's default external network.",
		Text:  "The Service needs %d policy routes in Vpc %s and gets %d of them. Connections to endpoints without a route fail. Use fewer endpoints or ports, or an address of the project's default external network.", Sample: []any{720, "shalb-dev", maxRoutes}},
}

// Limited says that a Service needs so many routes more than it gets.
func Limited(vpc string, more int) lb.Reason {
	return Reasons.With(RoutesLimited, maxRoutes+more, vpc, maxRoutes)
}
