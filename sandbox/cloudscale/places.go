package cloudscale

func listFlavors(*request) ([]any, error) {
	all := []any{}
	for _, f := range serverFlavors {
		all = append(all, map[string]any{
			"slug": f.slug, "name": f.name, "vcpu_count": f.vcpus, "memory_gb": f.gigs, "gpu": nil, "zones": slugs(zones),
		})
	}
	return all, nil
}

func listRegions(*request) ([]any, error) {
	all := []any{}
	for _, r := range regions {
		all = append(all, map[string]any{"slug": r.slug, "zones": slugs(r.zones)})
	}
	return all, nil
}

func slugs(texts []string) []slug {
	var all []slug
	for _, t := range texts {
		all = append(all, slug{t})
	}
	return all
}
