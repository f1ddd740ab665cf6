//go:build unix

package cluster

import "syscall"

func kill(pid int) error      { return syscall.Kill(pid, syscall.SIGKILL) }
func freeze(pid int) error    { return syscall.Kill(pid, syscall.SIGSTOP) }
func thaw(pid int) error      { return syscall.Kill(pid, syscall.SIGCONT) }
func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// killGroup kills the process's group, which detach made.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
