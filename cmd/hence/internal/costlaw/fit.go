package costlaw

import "math"

// Fit is overhead = Intercept + Slope · aborts by least squares. Low and High are the 95 % intervals by Student's t.
type Fit struct {
	Points                                 int
	Slope, SlopeLow, SlopeHigh             float64
	Intercept, InterceptLow, InterceptHigh float64
	R2                                     float64
}

// Fitted fits points. Slope and intervals are NaN where the points do not determine them: fewer than three, or all of
// one abort rate.
func Fitted(points []Point) Fit {
	n := float64(len(points))
	var sx, sy float64
	for _, p := range points {
		sx, sy = sx+p.Aborts, sy+p.Overhead
	}
	mx, my := sx/n, sy/n
	var xx, xy, yy float64
	for _, p := range points {
		dx, dy := p.Aborts-mx, p.Overhead-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	f := Fit{Points: len(points), Slope: xy / xx}
	f.Intercept = my - f.Slope*mx
	rest := 0.0
	for _, p := range points {
		d := p.Overhead - f.Intercept - f.Slope*p.Aborts
		rest += d * d
	}
	f.R2 = 1 - rest/yy
	within := quantile(n-2) * math.Sqrt(rest/(n-2))
	slope, intercept := within/math.Sqrt(xx), within*math.Sqrt(1/n+mx*mx/xx)
	f.SlopeLow, f.SlopeHigh = f.Slope-slope, f.Slope+slope
	f.InterceptLow, f.InterceptHigh = f.Intercept-intercept, f.Intercept+intercept
	return f
}

// quantile is the 97.5 % quantile of Student's t, by the expansion of Cornish and Fisher: to four digits from ten
// degrees of freedom on.
func quantile(degrees float64) float64 {
	const z = 1.959963984540054
	z3, z5, z7 := math.Pow(z, 3), math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*degrees) + (5*z5+16*z3+3*z)/(96*degrees*degrees) +
		(3*z7+19*z5+17*z3-15*z)/(384*math.Pow(degrees, 3))
}
