package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"fairlead.io/cmd/release/oci"
	"fairlead.io/deploy"
)

// Media types of charts, as Helm has them.
const (
	mediaChartConfig  = "application/vnd.cncf.helm.config.v1+json"
	mediaChartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartVersion is what the chart of a checkout says of its version.
func chartVersion(content []byte) (string, error) {
	var c struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(content, &c); err != nil {
		return "", fmt.Errorf("read %s/Chart.yaml: %w", deploy.Chart, err)
	}
	if c.Version != c.AppVersion {
		return "", fmt.Errorf("%s/Chart.yaml has version %s and appVersion %s. They must be the same", deploy.Chart, c.Version, c.AppVersion)
	}
	return c.Version, nil
}

// releasedChart is the chart with the version and the image of a release.
type releasedChart struct {
	config  []byte // Chart.yaml as JSON
	content []byte // a gzipped tar archive
}

// packChart packs what Git has of the chart.
func packChart(ctx context.Context, r repository, v version, repo, digest string, at time.Time) (releasedChart, error) {
	list, err := r.git(ctx, "ls-files", deploy.Chart)
	if err != nil {
		return releasedChart{}, err
	}
	var c releasedChart
	var files []archived
	paths := strings.Split(list, "\n")
	slices.Sort(paths)
	for _, path := range paths {
		name := strings.TrimPrefix(path, deploy.Chart+"/")
		if strings.HasPrefix(name, "testdata/") {
			continue
		}
		content, err := os.ReadFile(builder{dir: r.dir}.path(path))
		if err != nil {
			return c, err
		}
		switch name {
		case "Chart.yaml":
			content, err = setLines(content, `^(version|appVersion): .*$`, func(string) string { return v.String() }, 2)
			if err != nil {
				return c, fmt.Errorf("%s: %w", path, err)
			}
			if c.config, err = yaml.YAMLToJSON(content); err != nil {
				return c, fmt.Errorf("%s: %w", path, err)
			}
		case "values.yaml":
			if content, err = setImage(content, v, repo, digest); err != nil {
				return c, fmt.Errorf("%s: %w", path, err)
			}
		}
		files = append(files, archived{"fairlead/" + name, 0o644, content})
	}
	if c.config == nil {
		return c, fmt.Errorf("%s has no Chart.yaml", deploy.Chart)
	}
	packed, err := archive(at, files...)
	if err != nil {
		return c, err
	}
	c.content, err = oci.Gzip(packed)
	return c, err
}

// setImage makes values name the image of a release by its digest. Comments stay.
func setImage(values []byte, v version, repo, digest string) ([]byte, error) {
	image := map[string]string{"repository": repo, "tag": v.String(), "digest": digest}
	head, rest, found := strings.Cut(string(values), "\nimage:\n")
	end := regexp.MustCompile(`(?m)^\S`).FindStringIndex(rest)
	if !found || end == nil {
		return nil, fmt.Errorf("find the section image")
	}
	section, err := setLines([]byte(rest[:end[0]]), `^  (repository|tag|digest): .*$`, func(key string) string {
		return `"` + image[key] + `"`
	}, 3)
	if err != nil {
		return nil, err
	}
	changed := []byte(head + "\nimage:\n" + string(section) + rest[end[0]:])
	var parsed struct{ Image map[string]string }
	if err := yaml.Unmarshal(changed, &parsed); err != nil {
		return nil, err
	}
	for key, want := range image {
		if parsed.Image[key] != want {
			return nil, fmt.Errorf("image.%s is %q, not %q", key, parsed.Image[key], want)
		}
	}
	return changed, nil
}

// setLines gives the keys that a pattern finds other values.
func setLines(text []byte, pattern string, value func(key string) string, want int) ([]byte, error) {
	p := regexp.MustCompile("(?m)" + pattern)
	found := 0
	changed := p.ReplaceAllFunc(text, func(line []byte) []byte {
		found++
		key, _, _ := strings.Cut(string(line), ":")
		return []byte(key + ": " + value(strings.TrimSpace(key)))
	})
	if found != want {
		return nil, fmt.Errorf("there are %d lines such as %s, not %d", found, pattern, want)
	}
	return changed, nil
}

// addChart stores a chart as Helm uploads one.
func addChart(l oci.Layout, c releasedChart, annotations map[string]string) (oci.Descriptor, error) {
	config, err := l.Add(mediaChartConfig, c.config)
	if err != nil {
		return oci.Descriptor{}, err
	}
	content, err := l.Add(mediaChartContent, c.content)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return l.AddJSON(oci.MediaManifest, oci.Manifest{
		SchemaVersion: 2, MediaType: oci.MediaManifest, Config: config, Layers: []oci.Descriptor{content}, Annotations: annotations,
	})
}
