package pictures

// All returns the files of docs/images that are drawn here, by name. One has figures of
// docs/benchmarks.md.
func All(benchmarks string) (map[string][]byte, error) {
	measured, err := failover(benchmarks)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, p := range []*picture{measured, packets(), moves(), pending(), election(), migration(), backends()} {
		files[p.name+".svg"] = p.SVG()
	}
	return files, nil
}
