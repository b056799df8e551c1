package pause_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/topology/pause"
)

func TestDoubling(t *testing.T) {
	d := pause.Doubling{Least: 20, Most: 70}
	row := func() (out []time.Duration) {
		for range 4 {
			out = append(out, d.Next())
		}
		return out
	}
	want := []time.Duration{20, 40, 70, 70}
	if got := row(); !slices.Equal(got, want) {
		t.Errorf("the row is %v, want %v", got, want)
	}
	if d.Reset(); !slices.Equal(row(), want) {
		t.Error("after Reset the row is another one")
	}
	if got := d.Nth(2); got != 40 {
		t.Errorf("the second is %v, want 40", got)
	}
	if huge := (&pause.Doubling{Least: 1, Most: 1 << 62}).Nth(1000); huge != 1<<62 {
		t.Errorf("after a thousand it is %d, want the longest", huge)
	}
	if short := (&pause.Doubling{Least: 50, Most: 10}).Nth(1); short != 10 {
		t.Errorf("one that may last 10 lasts %d", short)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pause.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a minute lasted %v: %v", time.Since(began), err)
		}
		why := errors.New("told to end")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		began = time.Now()
		if err := pause.Sleep(ctx, time.Minute); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("cut off after a second it lasted %v: %v", time.Since(began), err)
		}
		if err := pause.Sleep(ctx, 0); !errors.Is(err, why) {
			t.Errorf("no pause in a context that has ended: %v", err)
		}
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		began = time.Now()
		if err := pause.Until(t.Context(), time.Minute, stop); err != nil || time.Since(began) != time.Second {
			t.Errorf("stopped after a second it lasted %v: %v", time.Since(began), err)
		}
	})
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries, complaints int
		began := time.Now()
		err := pause.Retry(t.Context(), pause.Doubling{Least: time.Second, Most: 2 * time.Second}, func() error {
			if tries++; tries < 4 {
				return errors.New("not yet")
			}
			return nil
		}, func(error) { complaints++ })
		if took := time.Since(began); err != nil || tries != 4 || complaints != 3 || took != 5*time.Second {
			t.Errorf("%d tries, %d complaints within %v: %v", tries, complaints, took, err)
		}
		why := errors.New("told to end")
		ctx, cancel := context.WithCancelCause(t.Context())
		err = pause.Retry(ctx, pause.Doubling{Least: time.Hour, Most: time.Hour}, func() error {
			cancel(why)
			return ctx.Err()
		}, func(err error) { t.Errorf("it complains of its own end: %v", err) })
		if !errors.Is(err, why) {
			t.Errorf("it ends with %v, want the context's cause", err)
		}
	})
}
