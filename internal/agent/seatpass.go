package agent

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// What a holder passes on to its successor besides the kernel's state: some bytes, and open
// descriptors. On the wire it is the number of descriptors and that of bytes, four bytes each,
// with which the descriptors travel, and the bytes.

const (
	// maxPassed is how many descriptors fit into one message, by the kernel's limit.
	maxPassed = 253
	// maxPassedBytes bounds what a successor reads.
	maxPassedBytes = 64 << 20
	// passTime is how long it may take.
	passTime = time.Second
)

// legacy is what an earlier agent has passed on.
type legacy struct {
	data []byte
	fds  []int
}

// close closes the descriptors if nobody has taken them.
func (l *legacy) close() {
	for _, fd := range l.fds {
		_ = syscall.Close(fd)
	}
	l.fds = nil
}

// pass hands data and descriptors to the first successor. The descriptors stay open here, too.
func (s *seat) pass(data []byte, fds []int) error {
	s.mu.Lock()
	var to *net.UnixConn
	for _, v := range s.visitors {
		if v.proven && to == nil {
			to = v.conn
		}
	}
	s.mu.Unlock()
	if to == nil {
		return errors.New("no successor is left")
	}
	if len(fds) > maxPassed {
		return errors.New("too many connections for one message")
	}
	if err := to.SetWriteDeadline(time.Now().Add(passTime)); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(fds)))
	head = binary.BigEndian.AppendUint32(head, uint32(len(data)))
	if _, _, err := to.WriteMsgUnix(head, syscall.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err := to.Write(data)
	return err
}

// receive waits until the holder has gone, and returns what it passed on, if anything. What is
// not complete is closed: a router sees a connection that breaks.
func receive(conn *net.UnixConn) legacy {
	head, oob := make([]byte, 8), make([]byte, syscall.CmsgSpace(4*maxPassed))
	n, oobn, _, _, err := conn.ReadMsgUnix(head, oob)
	if err != nil || n == 0 {
		return legacy{}
	}
	out := legacy{fds: descriptors(oob[:oobn])}
	if n < len(head) {
		if _, err = io.ReadFull(conn, head[n:]); err != nil {
			out.close()
			return legacy{}
		}
	}
	size := binary.BigEndian.Uint32(head[4:])
	if int(binary.BigEndian.Uint32(head)) != len(out.fds) || size > maxPassedBytes {
		out.close()
		return legacy{}
	}
	out.data = make([]byte, size)
	if _, err := io.ReadFull(conn, out.data); err != nil {
		out.close()
		return legacy{}
	}
	_, _ = conn.Read(make([]byte, 1)) // until it ends
	return out
}

func descriptors(oob []byte) []int {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var out []int
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
		}
		out = append(out, fds...)
	}
	return out
}
