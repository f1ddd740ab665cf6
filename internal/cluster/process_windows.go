package cluster

import (
	"errors"
	"os"
	"os/exec"
)

func detach(*exec.Cmd) {}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func killGroup(pid int) error { return kill(pid) }

func freeze(int) error    { return errors.ErrUnsupported }
func thaw(int) error      { return errors.ErrUnsupported }
func terminate(int) error { return errors.ErrUnsupported }
