//go:build !linux

package bus

import (
	"context"
	"fmt"
	"net"
)

// listenSocket binds path.
func listenSocket(path string) (net.Listener, error) {
	if err := checkLength(path); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	if err := checkLength(path); err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

func checkLength(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of the bus socket has %d bytes, this system takes %d; choose a shorter state directory",
			len(path), maxSocketPath)
	}
	return nil
}

// uidOf: not asked of this system; the directory's mode keeps others out.
func uidOf(net.Conn) (int, bool) { return 0, false }
