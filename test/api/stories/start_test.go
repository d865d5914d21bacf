package stories

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
)

// start starts a controller with the arguments and the environment (VARIABLE=VALUE)
// that args are; without any, with those that the story began with.
func (s *story) start(args []string) error {
	if len(args) == 0 {
		args = s.environment
	}
	env, cfg, metallb := map[string]string{}, (*config.Configuration)(nil), ""
	var err error
	for len(args) > 0 {
		name, value, isVariable := strings.Cut(args[0], "=")
		switch {
		case isVariable:
			env[name] = value
			args = args[1:]
			continue
		case len(args) < 2:
			return fmt.Errorf("%s without a value", args[0])
		case args[0] == "--config":
			cfg, err = config.Load(args[1])
		case args[0] == "--lb-class":
			cfg = config.Default().OnlyClass(args[1])
		case args[0] == "--metallb-namespace":
			metallb = args[1]
		default:
			err = fmt.Errorf("%s is not known", args[0])
		}
		if err != nil {
			return err
		}
		args = args[2:]
	}
	getenv := func(name string) string { return env[name] }
	if cfg == nil {
		if cfg, err = config.FromEnv(getenv); err != nil {
			return err
		}
	}
	s.stop = s.rig.Start(s.t, func(o *controller.Options) {
		o.Config, o.KubeVIPMap = cfg, config.KubeVIPMapFrom(getenv)
		o.MetricsAddress = s.metrics
		if metallb != "" {
			o.MetalLBNamespace = metallb
		}
		o.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { return s.writes.of(next) })
	})
	return nil
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
