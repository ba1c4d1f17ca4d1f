package main

import (
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var (
	ourColor   = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb4, A: 0xff}
	theirColor = color.RGBA{R: 0xa8, G: 0xb3, B: 0xbd, A: 0xff}
)

// plotName is the file of a group's plot.
func (g group) plotName() string {
	name := "peers " + g.workload.name + " " + string(g.promise)
	return strings.NewReplacer("/", "-", "=", "", " ", "-").Replace(name) + ".svg"
}

// writePlot draws a group as bars, the first peer at the top.
func writePlot(g group, dir string) error {
	p := plot.New()
	p.Title.Text = g.title()
	p.X.Label.Text = "messages per second, until they can be read (median)"
	p.X.Min = 0
	p.X.Tick.Marker = plot.TickerFunc(rateTicks)
	p.Add(plotter.NewGrid())
	rows := slices.Clone(g.rows)
	slices.Reverse(rows)
	ours, theirs := make(plotter.Values, len(rows)), make(plotter.Values, len(rows))
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.peer.name
		values := theirs
		if r.peer.module == peers[0].module {
			values = ours
		}
		values[i] = r.rate(result.drainedRate).median
	}
	for _, bars := range []struct {
		values plotter.Values
		color  color.Color
	}{{ours, ourColor}, {theirs, theirColor}} {
		chart, err := plotter.NewBarChart(bars.values, vg.Points(12))
		if err != nil {
			return err
		}
		chart.Horizontal, chart.Color, chart.LineStyle.Width = true, bars.color, 0
		p.Add(chart)
	}
	p.NominalY(names...)
	return p.Save(20*vg.Centimeter, vg.Length(len(rows))*0.8*vg.Centimeter+3*vg.Centimeter, filepath.Join(dir, g.plotName()))
}

// rateTicks are the default ones, written with groups of three digits.
func rateTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = formatRate(ticks[i].Value)
		}
	}
	return ticks
}
