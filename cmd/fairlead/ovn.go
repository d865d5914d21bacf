package main

import (
	"fmt"
	"slices"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
)

// checkOVN reads what the configuration says about OVN's northbound database, where a
// class needs it.
func checkOVN(c *config.Configuration, getenv func(string) string) error {
	if !slices.Contains(c.Backends(), config.OVN) {
		return nil
	}
	if _, err := c.OVN.Endpoints(getenv); err != nil {
		return fmt.Errorf("reach OVN: %w", err)
	}
	return nil
}

// checkBackends says which class has a backend that this program does not have: its
// Services would wait without a word.
func checkBackends(o *controller.Options) error {
	for _, class := range o.Config.Classes {
		if _, ok := o.Backends[class.Backend]; !ok {
			return fmt.Errorf("class %q: this version of Fairlead cannot serve backend %q", class.Name, class.Backend)
		}
	}
	return nil
}
