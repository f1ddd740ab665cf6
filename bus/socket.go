package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// maxSocketPath is what the system calls take: 108 bytes with the final NUL on
// Linux, 104 on others. Longer ones go through a directory handle on Linux.
const maxSocketPath = 103

// socket is a bound unix socket and the file that it made.
type socket struct {
	path string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	old      []net.Listener // whose files are gone
	info     fs.FileInfo
}

// bind makes the directory (0700) and the socket (0600) and listens.
func bind(path string) (*socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of the bus socket: %w", err)
	}
	s := &socket{path: path}
	if err := s.clear(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	return s, nil
}

// clear removes a socket that nobody serves from the path. Instances are random,
// so what stands there is not another live member's.
func (s *socket) clear() error {
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at bus socket: %w", err)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("bind bus socket: %s is not a socket (%s); move it away", s.path, info.Mode().Type())
	}
	conn, err := dialSocket(context.Background(), s.path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) { // EAGAIN: its backlog is full
		return fmt.Errorf("bind bus socket: another process serves %s", s.path)
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a dead process's bus socket: %w", err)
	}
	return nil
}

func (s *socket) listen() error {
	listener, err := listenSocket(s.path)
	if err != nil {
		return fmt.Errorf("bind bus socket %s: %w", s.path, err)
	}
	if err := os.Chmod(s.path, 0o600); err != nil { // where it was not made so, the directory is 0700 all the while
		_ = listener.Close()
		return fmt.Errorf("protect bus socket: %w", err)
	}
	info, err := os.Lstat(s.path)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("look at bus socket: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.old = append(s.old, s.listener)
	}
	s.listener, s.info = listener, info
	return nil
}

// inPlace reports whether the file at the path is the one that was bound.
func (s *socket) inPlace() bool {
	info, err := os.Lstat(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && os.SameFile(info, s.info)
}

// rebind makes the socket anew after its file was removed. A file of another
// kind in its place is an error.
func (s *socket) rebind() (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of the bus socket: %w", err)
	}
	if err := s.clear(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.old {
		_ = l.Close()
	}
	s.old = nil
	return s.listener, nil
}

// remove unlinks the file if it is still the one that was bound.
func (s *socket) remove() error {
	if !s.inPlace() {
		return nil
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("remove bus socket: %w", err)
	}
	return nil
}
