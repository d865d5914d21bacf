package setup

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	backendovn "fairlead.io/internal/backend/ovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/internal/placement"
)

// ovnWorkers is how many Services are worked on at the same time. They mostly wait for the
// database, and those that do share a transaction.
const ovnWorkers = 100

// AddOVN adds to o, which has its configuration, what serves classes of backend ovn. cluster
// tells the rows of this cluster from those of others. services says how it is run, and
// change what is not as usual.
func AddOVN(o *controller.Options, cluster string, endpoints []ovsdb.Endpoint, services controller.Backend, change ...func(*placement.Options)) error {
	registry := prometheus.NewRegistry()
	db, err := ovn.New(ovn.Options{Cluster: cluster, Endpoints: endpoints, TLS: o.Config.OVN.Files(), Log: o.Log, Registry: registry})
	if err != nil {
		return fmt.Errorf("reach OVN: %w", err)
	}
	places := placement.Options{REST: o.REST, Log: o.Log, Config: o.Config, DB: db, DryRun: services.DryRun}
	for _, f := range change {
		f(&places)
	}
	placer, err := placement.New(places)
	if err != nil {
		return fmt.Errorf("follow projects: %w", err)
	}
	services.Backend = backendovn.New(backendovn.Options{DB: db, Placer: placer, Dialect: kubedc.Format})
	services.Plans, services.Workers = true, ovnWorkers
	// Rows say for which Service of which cluster they are: no operator has to judge that.
	services.RemoveOrphans = true
	o.Backends[config.OVN] = services
	o.Dialects = append(o.Dialects, kubedc.Dialect{})
	o.Metrics = append(o.Metrics, registry)
	return nil
}
