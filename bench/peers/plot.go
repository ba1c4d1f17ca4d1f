package main

import (
	"bytes"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
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

// plotted are the rows with figures that are peers: beside a limit the others would be hard to tell apart.
func (g group) plotted() []*row {
	return slices.DeleteFunc(g.measured(), func(r *row) bool { return r.peer.module == "" })
}

// writePlot draws a group as bars, the first peer at the top.
func writePlot(g group, dir string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.Y.Label.Text = " " // room for names in a wider font
	p.Title.Text, p.Title.Padding = g.title(), 8
	p.X.Label.Text = "messages per second until they can be read, median"
	p.X.Tick.Marker = plot.TickerFunc(rateTicks)
	p.Add(plotter.NewGrid())
	rows := g.plotted()
	slices.Reverse(rows)
	if err := addBars(p, rows); err != nil {
		return err
	}
	if err := addRates(p, rows); err != nil {
		return err
	}
	p.X.Min, p.X.Max = 0, 1.2*p.X.Max // the rates are to the right of the bars
	p.Y.Min, p.Y.Max = -0.5, float64(len(rows))-0.5
	return saveSVG(p, len(rows), filepath.Join(dir, g.plotName()))
}

// addBars draws PocketMQ in another color than the others.
func addBars(p *plot.Plot, rows []*row) error {
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
	return nil
}

// addRates writes each rate at the end of its bar.
func addRates(p *plot.Plot, rows []*row) error {
	var rates plotter.XYLabels
	for i, r := range rows {
		rate := r.rate(result.drainedRate).median
		rates.XYs = append(rates.XYs, plotter.XY{X: rate, Y: float64(i)})
		rates.Labels = append(rates.Labels, " "+formatRate(rate))
	}
	labels, err := plotter.NewLabels(rates)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].YAlign = -0.4
	}
	p.Add(labels)
	return nil
}

// saveSVG gives each bar the same room. Readers who do not have the font get one of the same widths.
func saveSVG(p *plot.Plot, bars int, path string) error {
	w, err := p.WriterTo(20*vg.Centimeter, vg.Length(bars)*0.8*vg.Centimeter+3*vg.Centimeter, "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := w.WriteTo(&svg); err != nil {
		return err
	}
	const font = "font-family:Liberation Sans"
	return os.WriteFile(path, bytes.ReplaceAll(svg.Bytes(), []byte(font), []byte(font+",Arial,Helvetica,sans-serif")), 0o666)
}

// rateTicks are the default ones, written with groups of three digits where there is room.
func rateTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		switch {
		case ticks[i].Value > low+0.93*(high-low):
			ticks[i].Label = ""
		case ticks[i].Label != "":
			ticks[i].Label = formatRate(ticks[i].Value)
		}
	}
	return ticks
}
