package main

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	hundred := make(samples, 100) // 100 ms down to 1 ms
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	tests := []struct {
		name string
		of   samples
		q    float64
		want time.Duration
	}{
		{"nothing", nil, 0.5, 0},
		{"one", samples{7}, 0.5, 7},
		{"one, p99", samples{7}, 0.99, 7},
		{"two, p50 is the lower", samples{9, 4}, 0.5, 4},
		{"three, p50 is the middle", samples{9, 1, 4}, 0.5, 4},
		{"hundred, p50", hundred, 0.5, 50 * time.Millisecond},
		{"hundred, p99", hundred, 0.99, 99 * time.Millisecond},
		{"hundred, max", hundred, 1, 100 * time.Millisecond},
		{"twenty, p99 is the greatest", hundred[80:], 0.99, 20 * time.Millisecond},
		{"q of 0 is the least", hundred, 0, time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.of.quantile(tt.q); got != tt.want {
				t.Errorf("quantile(%v) = %v, want %v", tt.q, got, tt.want)
			}
		})
	}
	if hundred[0] != 100*time.Millisecond {
		t.Error("the samples were put into another order")
	}
}

func TestDrainRate(t *testing.T) {
	// Nine updates: three in the first second, then three in 2 s, then in 3 s.
	d := drain{begin: 10 * time.Second}
	for _, ms := range []int{16000, 15000, 14000, 13000, 12300, 11600, 11000, 10600, 10300} {
		d.done = append(d.done, time.Duration(ms)*time.Millisecond)
	}
	tests := []struct {
		name   string
		q0, q1 float64
		want   float64
	}{
		{"all", 0, 1, 1.5},
		{"first third", 0, 1. / 3, 3},
		{"second third", 1. / 3, 2. / 3, 1.5},
		{"last third", 2. / 3, 1, 1},
		{"an empty share", 0.5, 0.5, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := d.rate(tt.q0, tt.q1); got != tt.want {
				t.Errorf("rate = %v, want %v", got, tt.want)
			}
		})
	}
	if got := (drain{}).rate(0, 1); got != 0 {
		t.Errorf("rate of nothing = %v, want 0", got)
	}
}

func TestEnds(t *testing.T) {
	tests := []struct {
		name                string
		of                  []float64
		first, middle, last float64
	}{
		{"nothing", nil, 0, 0, 0},
		{"one", []float64{3}, 3, 3, 3},
		{"four", []float64{1, 5, 2, 4}, 1, 2, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, middle, last := ends(tt.of)
			if first != tt.first || middle != tt.middle || last != tt.last {
				t.Errorf("ends = %v, %v, %v, want %v, %v, %v", first, middle, last, tt.first, tt.middle, tt.last)
			}
		})
	}
}
