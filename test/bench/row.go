package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
)

// Row is one line of the table.
type Row struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target string  `json:"target"` // empty: the row is there for the scale
	OK     bool    `json:"ok"`
}

// info is a row without a target. Three digits are kept: there is no meaning in
// more of them.
func info(name string, value float64, unit string) Row {
	return Row{Name: name, Value: round(value), Unit: unit, OK: true}
}

// The others add a target to a row.
func (r Row) atLeast(bound float64) Row { return r.wants("≥", bound, r.Value >= bound) }
func (r Row) atMost(bound float64) Row  { return r.wants("≤", bound, r.Value <= bound) }
func (r Row) below(bound float64) Row   { return r.wants("<", bound, r.Value < bound) }
func (r Row) exactly(bound float64) Row { return r.wants("=", bound, r.Value == bound) }

func (r Row) wants(sign string, bound float64, ok bool) Row {
	r.Target, r.OK = sign+" "+number(bound), ok
	return r
}

func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	if unit >= 1 {
		return math.Round(v)
	}
	return math.Round(v/unit) / math.Round(1/unit)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func printTable(out io.Writer, rows []Row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tvalue\tunit\ttarget\t")
	missed := 0
	for _, r := range rows {
		verdict := ""
		switch {
		case !r.OK:
			verdict = "missed"
			missed++
		case r.Target != "":
			verdict = "ok"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, number(r.Value), r.Unit, r.Target, verdict)
	}
	w.Flush()
	if missed > 0 {
		fmt.Fprintf(out, "%d targets missed\n", missed)
	}
}

func writeJSON(path string, rows []Row) error {
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("encode rows: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// median of values, which it sorts.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile q of values, which it sorts.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	at := q * float64(len(values)-1)
	low := int(at)
	high := min(low+1, len(values)-1)
	return values[low] + (values[high]-values[low])*(at-float64(low))
}
