package stories

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/setup"
	"fairlead.io/test/kit/rig"
)

// start starts a controller with the arguments and the environment (VARIABLE=VALUE)
// that args are; without any variable, in the environment that the story began with.
func (s *story) start(args []string) error {
	p, err := parseStart(args)
	if err != nil {
		return err
	}
	if len(p.env) == 0 {
		for _, variable := range s.environment {
			p.setenv(variable)
		}
	}
	getenv := func(name string) string { return p.env[name] }
	if p.config == nil {
		var clouds []config.Cloud
		if getenv(cloudToken) != "" {
			clouds = []config.Cloud{config.CloudscaleNodes}
		}
		if p.config, err = config.FromEnv(getenv, clouds...); err != nil {
			return err
		}
	}
	options := []func(*controller.Options){func(o *controller.Options) {
		o.Config = p.config
		setup.Add(o, setup.Names{MetalLBNamespace: cmp.Or(p.metallb, rig.MetalLBNamespace), KubeVIPMap: config.KubeVIPMapFrom(getenv)})
		o.MetricsAddress = s.metrics
		o.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { return s.writes.of(next) })
	}}
	if token := getenv(cloudToken); token != "" {
		options = append(options, s.cloud.Serve(s.t, token, p.cloud...))
	}
	s.stop = s.rig.Start(s.t, options...)
	return nil
}

// parsed are the arguments of a controller in a story.
type parsed struct {
	env     map[string]string
	config  *config.Configuration // nil: by the environment
	metallb string                // namespace
	cloud   []func(*controller.Backend)
}

func (p *parsed) setenv(variable string) {
	name, value, _ := strings.Cut(variable, "=")
	p.env[name] = value
}

func parseStart(args []string) (*parsed, error) {
	p := &parsed{env: map[string]string{}}
	flags := flag.NewFlagSet("controller start", flag.ContinueOnError)
	flags.Func("config", "", func(path string) (err error) { p.config, err = config.Load(path); return err })
	flags.Func("lb-class", "", func(class string) (err error) { p.config, err = config.Default().OnlyClass(class); return err })
	flags.StringVar(&p.metallb, "metallb-namespace", "", "")
	flags.BoolFunc("dry-run", "", func(string) error {
		p.cloud = append(p.cloud, func(c *controller.Backend) { c.DryRun = true })
		return nil
	})
	flags.BoolFunc("remove-orphans", "", func(string) error {
		p.cloud = append(p.cloud, func(c *controller.Backend) { c.RemoveOrphans = true })
		return nil
	})
	flags.Func("cloud-resync", "", func(text string) error {
		every, err := time.ParseDuration(text)
		p.cloud = append(p.cloud, func(c *controller.Backend) { c.Resync = every })
		return err
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for _, variable := range flags.Args() {
		if !strings.Contains(variable, "=") {
			return nil, fmt.Errorf("%s is not known", variable)
		}
		p.setenv(variable)
	}
	return p, nil
}

// writes counts what controllers write to Services, by path.
type writes struct {
	mu    sync.Mutex
	count map[string]int
}

func (w *writes) of(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/services/") {
			w.mu.Lock()
			if w.count == nil {
				w.count = map[string]int{}
			}
			w.count[strings.TrimSuffix(r.URL.Path, "/status")]++
			w.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// written compares how often controllers wrote the Service since the story began.
func (s *story) written(args []string) error {
	namespace, name, _ := strings.Cut(args[0], "/")
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	if n := fmt.Sprint(s.writes.count["/api/v1/namespaces/"+namespace+"/services/"+name]); n != args[1] {
		return fmt.Errorf("it was written %s times", n)
	}
	return nil
}
