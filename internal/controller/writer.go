package controller

import (
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// maxConnections is how many client-go keeps for requests to come, less some for lists.
	maxConnections = 24
	// dialTimeout is client-go's own.
	dialTimeout = 30 * time.Second
	// writeTimeout is for a connection that died with a request under way, of which HTTP/1.1
	// does not find out.
	writeTimeout = 30 * time.Second
)

// keepAlive finds connections without requests dead within eleven seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// newWriter returns the client for Services and events, with so many requests under way at
// the same time. It is not limited on our side: the API server's own fairness does that.
//
// Requests that share one connection (HTTP/2) cost both sides more time than requests with
// one each, unless they are too many to keep the connections.
func newWriter(base *rest.Config, atOnce int) (kubernetes.Interface, error) {
	c := rest.CopyConfig(base)
	c.QPS = -1
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if atOnce <= maxConnections && c.Transport == nil {
		c.NextProtos = []string{"http/1.1"}
		if c.Dial == nil {
			c.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}).DialContext
		}
	}
	writer, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return writer, nil
}

// workers is how many Services are written at the same time.
func (c *classes) workers() (all int) {
	for _, b := range c.backends {
		all += b.Workers
	}
	return all
}
