package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
)

// logFlags choose how logs are written.
type logFlags struct {
	format string
	level  string
}

func (l *logFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.format, "log-format", "auto", "auto, json or text; auto means text on a terminal and json otherwise")
	f.StringVar(&l.level, "log-level", "info", "debug, info, warn or error; as in MetalLB, also all (debug) or none")
}

// logger returns the logger of the process, and makes the libraries use it. A
// cluster's name, if there is one, is on every line.
func (l *logFlags) logger(out *os.File, cluster string) (*slog.Logger, error) {
	level, err := levelOf(l.level)
	if err != nil {
		return nil, err
	}
	format := l.format
	if format == "auto" {
		format = "json"
		if term.IsTerminal(int(out.Fd())) {
			format = "text"
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler
	switch format {
	case "json":
		h = slog.NewJSONHandler(out, opts)
	case "text":
		h = slog.NewTextHandler(out, opts)
	default:
		return nil, fmt.Errorf("--log-format %q is not auto, json or text", l.format)
	}
	log := slog.New(h)
	if cluster != "" {
		log = log.With("cluster", cluster)
	}
	slog.SetDefault(log)
	klog.SetLogger(logr.FromSlogHandler(log.Handler()))
	crlog.SetLogger(logr.FromSlogHandler(log.Handler()))
	return log, nil
}

func levelOf(name string) (slog.Level, error) {
	switch name {
	case "all":
		return slog.LevelDebug, nil
	case "none":
		return math.MaxInt, nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("--log-level %q is not all, debug, info, warn, error or none", name)
	}
	return level, nil
}
