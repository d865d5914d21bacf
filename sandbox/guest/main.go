// Command guest is what runs inside the sandbox's own images. It is small and
// static, and knows nothing of the rest:
//
//	guest pause          holds the namespaces of a pod
//	guest web [PORT]     says over HTTP and UDP who answers, and whom
//	guest get URL        fetches, for images have no other programs
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "pause":
		return pause()
	case len(args) == 1 && args[0] == "web":
		return web("8080")
	case len(args) == 2 && args[0] == "web":
		return web(args[1])
	case len(args) == 2 && args[0] == "get":
		return get(args[1])
	}
	return fmt.Errorf("usage: guest pause | web [PORT] | get URL")
}

// pause waits for a signal to end. As first process of a pod it is the parent of
// orphans.
func pause() error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return nil
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

// web answers until a signal tells it to end, and then until no packet for it can be
// under way any more: load balancers hear of its end later than it does.
func web(port string) error {
	name := os.Getenv("GUEST_NAME") // of a VM, which shares the machine's
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return err
		}
	}
	if node := os.Getenv("NODE_NAME"); node != "" {
		name += " on " + node
	}
	answer := func(client string) string { return fmt.Sprintf("%s answers %s\n", name, client) }

	udp, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 2048)
		for {
			_, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			// A client that is gone is not our trouble.
			_, _ = udp.WriteTo([]byte(answer(from.String())), from)
		}
	}()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	failed := make(chan error, 1)
	server := &http.Server{
		Addr:              ":" + port,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, answer(r.RemoteAddr))
		}),
	}
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-stop:
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(3 * time.Second):
		return nil
	}
}

func get(url string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
