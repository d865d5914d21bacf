// Package guides embeds the pages by which people replace another load balancer, so that
// "kubectl fairlead migrate" prints the steps that the pages have.
package guides

import "embed"

// Files are the pages, by their names.
//
//go:embed migrate-from-*.md
var Files embed.FS
