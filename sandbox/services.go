package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// serve starts what a node runs and keeps it running.
func (n nodeConfig) serve() error {
	r := &reaper{ended: make(map[int]chan syscall.WaitStatus)}
	go r.reap()
	go n.keep(r, "containerd", []string{"containerd"})
	waitForSocket(containerdSocket)
	if err := n.importImages(r); err != nil {
		return err
	}
	go n.keep(r, "kubelet", n.kubeletArgs())
	n.keep(r, "kube-proxy", n.proxyArgs())
	return nil
}

// keep runs a service for ever.
func (n nodeConfig) keep(r *reaper, name string, argv []string) {
	log := filepath.Join("/var/log", name+".log")
	for {
		ended, err := r.start(argv, log)
		if err == nil {
			fmt.Printf("%s ended: exit status %d\n", name, (<-ended).ExitStatus())
		} else {
			fmt.Println(err)
		}
		time.Sleep(time.Second)
	}
}

// importImages gives containerd the images of the cluster. It knows them
// already if the node is started again.
func (n nodeConfig) importImages(r *reaper) error {
	images, err := filepath.Glob(filepath.Join(nodeState, "images", "*.tar"))
	if err != nil {
		return err
	}
	for _, image := range images {
		ended, err := r.start(importCommand(image), "/var/log/import.log")
		if err != nil {
			return err
		}
		if status := <-ended; status.ExitStatus() != 0 {
			return fmt.Errorf("import %s: exit status %d; %s", image, status.ExitStatus(), logTail("/var/log/import.log"))
		}
	}
	return nil
}

func importCommand(image string) []string {
	return []string{"ctr", "--namespace=k8s.io", "images", "import", image}
}

func waitForSocket(path string) {
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reaper starts processes and waits for all that end: the first process of a
// pid namespace is the parent of orphans too.
type reaper struct {
	mu    sync.Mutex // held while a process is started, lest it end unknown
	ended map[int]chan syscall.WaitStatus
}

// start starts a program that writes to a log. The channel tells how it ended.
func (r *reaper) start(argv []string, log string) (<-chan syscall.WaitStatus, error) {
	path, err := lookPath(argv[0])
	if err != nil {
		return nil, err
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer output.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=" + nodePath, "HOME=/root"},
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	r.ended[pid] = ended
	return ended, nil
}

func (r *reaper) reap() {
	for {
		var info syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &info, 0, nil)
		if err != nil { // ECHILD: none just now
			time.Sleep(50 * time.Millisecond)
			continue
		}
		r.mu.Lock()
		if ended, ours := r.ended[pid]; ours {
			ended <- info
			delete(r.ended, pid)
		}
		r.mu.Unlock()
	}
}

// nodePath is where programs are looked for on a node.
const nodePath = nodeState + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func lookPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	dirs := filepath.SplitList(nodePath)
	i := slices.IndexFunc(dirs, func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
	if i < 0 {
		return "", fmt.Errorf("find program %s in %s", name, nodePath)
	}
	return filepath.Join(dirs[i], name), nil
}
