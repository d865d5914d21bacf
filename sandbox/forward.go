package sandbox

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
)

// Forward passes connections on until the process is killed. It runs as
// "sandbox forward TO" in the network namespace of the control plane, with a
// socket as descriptor 3 that listens in the machine's: a socket belongs to
// the namespace it was made in. So the machine reaches the API server without
// a route to the cluster.
func Forward(to string) error {
	target, err := netip.ParseAddrPort(to)
	if err != nil {
		return fmt.Errorf("parse target: %w", err)
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	for {
		in, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept connection: %w", err)
		}
		go forward(in, target.String())
	}
}

func forward(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return // the client sees the connection closed
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			// An error ends this direction, as the end of data does.
			_, _ = io.Copy(way[1], way[0])
			if half, ok := way[1].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
