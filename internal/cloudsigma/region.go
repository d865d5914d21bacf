package cloudsigma

import (
	"fmt"
	"net/url"
	"strings"

	"fairlead.io/internal/cloud"
)

// hosts of regions that have another one than the rest: they belong to partners.
var hosts = map[string]string{
	"dub": "ec.servecentric.com",
	"ruh": "ruh.cld.v2.sa",
	"adb": "siaflex.cloud",
	"wdc": "wdc.alpha3cloud.com",
}

const (
	defaultDomain = ".cloudsigma.com"
	apiPath       = "api/2.0/"
	// directPrefix begins the name of the host that serves tokens of impersonated
	// users. On the plain host they act for the service account instead.
	directPrefix = "direct."

	impersonatePath = "service_provider/api/v1/user/impersonate"
)

// endpoints are where the API is.
type endpoints struct {
	api         string // paths of calls are added to it
	impersonate string
}

// endpointsOf returns where the API of a region is. override, if it is not empty,
// is the base of everything, with or without the API's path. direct is for tokens
// of impersonated users.
func endpointsOf(region, override string, direct bool) (endpoints, error) {
	if override != "" {
		base, err := cloud.ParseURL(EnvEndpoint, override, "https://zrh.cloudsigma.com/api/2.0")
		if err != nil {
			return endpoints{}, err
		}
		u, err := url.Parse(base)
		if err != nil {
			return endpoints{}, err
		}
		root := u.Scheme + "://" + u.Host + "/"
		return endpoints{strings.TrimSuffix(base, apiPath) + apiPath, root + impersonatePath}, nil
	}
	host, err := hostOf(region)
	if err != nil {
		return endpoints{}, err
	}
	if direct {
		host = directPrefix + host
	}
	return endpoints{"https://" + host + "/" + apiPath, "https://" + host + "/" + impersonatePath}, nil
}

// hostOf a region. Regions come and go; one that we do not know is taken as it is.
func hostOf(region string) (string, error) {
	region = strings.ToLower(strings.TrimSpace(region))
	if region == "" {
		return "", fmt.Errorf("no region configured: set --region or %s to the region of the servers, such as zrh", EnvRegion)
	}
	for _, r := range region {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return "", fmt.Errorf("region %q is not a code such as zrh; set %s to use another endpoint", region, EnvEndpoint)
		}
	}
	if host, other := hosts[region]; other {
		return host, nil
	}
	return region + defaultDomain, nil
}
