package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgbridge/config"
)

func TestDefaultName(t *testing.T) {
	tests := []struct {
		name, dir, host string
		container       bool
		want            string
	}{
		{"working directory", "/home/op/project", "laptop", false, "project"},
		{"container", "/app", "4f5e6d", true, "4f5e6d"},
		{"root", "/", "laptop", false, "laptop"},
		{"no working directory", "", "laptop", false, "laptop"},
		{"nothing", "", "", false, "tgbridge"},
		{"unprintable", "/home/a\nb\xff", "laptop", false, "a-b-"},
		{"long", "/home/" + strings.Repeat("ö", 100), "laptop", false, strings.Repeat("ö", 64)},
		{"blank", "/home/ ", "laptop", false, "tgbridge"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := config.DefaultName(tt.dir, tt.host, tt.container); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDefaultStateDir(t *testing.T) {
	tests := []struct {
		name    string
		environ map[string]string
		want    string
	}{
		{"home", map[string]string{"HOME": "/home/op"}, "/home/op/.local/state/tgbridge"},
		{"XDG", map[string]string{"HOME": "/home/op", "XDG_STATE_HOME": abs(t, "/state")}, abs(t, "/state/tgbridge")},
		{"relative XDG does not count", map[string]string{"HOME": "/home/op", "XDG_STATE_HOME": "state"}, "/home/op/.local/state/tgbridge"},
		{"nothing", map[string]string{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := config.DefaultStateDir(tt.environ); got != filepath.FromSlash(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestInContainer(t *testing.T) {
	tests := []struct {
		name, file, content string
		environ             map[string]string
		want                bool
	}{
		{name: "bare", want: false},
		{name: "Docker", file: ".dockerenv", want: true},
		{name: "Podman", file: "run/.containerenv", want: true},
		{name: "Kubernetes by groups", file: "proc/1/cgroup", content: "12:cpu:/kubepods/besteffort/pod1\n", want: true},
		{name: "groups of a host", file: "proc/1/cgroup", content: "0::/init.scope\n", want: false},
		{name: "groups in a namespace", file: "proc/1/cgroup", content: "0::/\n", want: false},
		{name: "Podman by variable", environ: map[string]string{"container": "podman"}, want: true},
		{name: "Kubernetes by variable", environ: map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if tt.file != "" {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, tt.file)), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, root, tt.file, tt.content)
			}
			if got := config.InContainer(root, tt.environ); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
