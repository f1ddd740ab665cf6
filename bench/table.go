package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A unit says what a row's numbers are.
type unit string

const (
	inTime  unit = "ns"
	inBytes unit = "B"
	aSecond unit = "1/s"
	ofCPU   unit = "us/s" // microseconds of CPU time in a second
	number  unit = "count"
)

// A row is one line of the table.
type row struct {
	Row  string `json:"row"`  // which of --rows it belongs to
	What string `json:"what"` // is measured
	Unit unit   `json:"unit"`
	// Ours and Floor are in Unit; Floor is nil where there is nothing to compare
	// with.
	Ours  float64  `json:"ours"`
	Floor *float64 `json:"floor"`
	// Ratio is Ours / Floor, nil without a floor or with one of 0.
	Ratio *float64 `json:"ratio"`
	// FloorIs says what the floor is.
	FloorIs string `json:"floor_is,omitempty"`
}

// A table is all that was measured, with what one has to know of the run.
type table struct {
	Machine machine `json:"machine"`
	Events  int     `json:"events"`
	Seconds int     `json:"seconds"`
	Seed    uint64  `json:"seed"`
	Rows    []row   `json:"rows"`
}

// A machine is where the run took place. Fields that could not be found out are
// empty.
type machine struct {
	CPUs       int    `json:"cpus"`
	Model      string `json:"model,omitempty"`
	Kernel     string `json:"kernel,omitempty"`
	FileSystem string `json:"file_system,omitempty"` // of the state directory
	Load       string `json:"load,omitempty"`        // averages before the run
	Go         string `json:"go"`
}

// quietLoad is the most processes that want to run, on average over the last
// minute, of a machine that counts as quiet.
const quietLoad = 0.5

// busy reports whether the machine had more to do before the run.
func (m machine) busy() bool {
	now, _, _ := strings.Cut(m.Load, " ")
	load, err := strconv.ParseFloat(now, 64)
	return err == nil && load > quietLoad
}

// warning says so.
func (m machine) warning() string {
	return fmt.Sprintf("this machine was not quiet before the run (load %s on %d CPUs): only ratios say something", m.Load, m.CPUs)
}

// compare adds a row with a floor.
func (t *table) compare(name, what string, u unit, ours, floor float64, floorIs string) {
	r := row{Row: name, What: what, Unit: u, Ours: ours, Floor: &floor, FloorIs: floorIs}
	if floor != 0 {
		ratio := ours / floor
		r.Ratio = &ratio
	}
	t.Rows = append(t.Rows, r)
}

// tell adds a row without a floor.
func (t *table) tell(name, what string, u unit, ours float64) {
	t.Rows = append(t.Rows, row{Row: name, What: what, Unit: u, Ours: ours})
}

// spread adds the rows that describe two sets of durations.
func (t *table) spread(name, what string, ours, floor samples, floorIs string) {
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		t.compare(name, what+", "+q.name, inTime, float64(ours.quantile(q.share)), float64(floor.quantile(q.share)), floorIs)
	}
}

// write prints the table, for people or as one line of JSON.
func (t *table) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(t)
	}
	m := t.Machine
	if _, err := fmt.Fprintf(w, "%d x %s, Linux %s, %s, %s, load %s\n%d events, %d s idle, seed %d\n",
		m.CPUs, m.Model, m.Kernel, m.FileSystem, m.Go, m.Load, t.Events, t.Seconds, t.Seed); err != nil {
		return err
	}
	if m.busy() {
		if _, err := fmt.Fprintln(w, m.warning()); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "row\twhat\tours\tfloor\tratio\tthe floor is") // Flush tells of errors
	for _, r := range t.Rows {
		floor, ratio := "", ""
		if r.Floor != nil {
			floor = r.Unit.format(*r.Floor)
		}
		if r.Ratio != nil {
			ratio = significant(*r.Ratio) + "x"
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Row, r.What, r.Unit.format(r.Ours), floor, ratio, r.FloorIs)
	}
	return tw.Flush()
}

// format writes a value in its unit for people.
func (u unit) format(v float64) string {
	switch u {
	case inTime:
		return formatDuration(time.Duration(v))
	case inBytes:
		return significant(v/(1<<20)) + " MiB"
	case aSecond:
		return significant(v) + "/s"
	case ofCPU:
		return significant(v) + " us/s"
	}
	return significant(v)
}

func formatDuration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return significant(float64(d)/float64(time.Microsecond)) + " us"
	case d < time.Second:
		return significant(float64(d)/float64(time.Millisecond)) + " ms"
	}
	return significant(d.Seconds()) + " s"
}

// significant writes three digits, and all of those before the point.
func significant(v float64) string {
	if v == 0 {
		return "0"
	}
	before := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	return strconv.FormatFloat(v, 'f', min(3, max(0, 3-before)), 64)
}
