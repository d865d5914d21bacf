package main

import (
	"fmt"
	"log/slog"
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
	f.StringVar(&l.format, "log-format", "auto", "auto, json or text; auto is text on a terminal and json elsewhere")
	f.StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
}

// logger returns the logger of the process, and makes the libraries use it. A
// cluster's name, if there is one, is on every line.
func (l *logFlags) logger(out *os.File, cluster string) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, fmt.Errorf("--log-level %q is not debug, info, warn or error", l.level)
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
