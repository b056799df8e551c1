package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

// shownOf says whether a journal that names no log, written last at a time, is shown to be of the log that is
// followed. An error says that this is not known.
type shownOf func(l *Ledger, written time.Time) (bool, error)

// takeOver makes the journal that a release without the log's id in it has left this log's, where the log shows that
// it is. Else it is moved aside: what it says of a transaction may be of another one of that name.
func (d *Journal) takeOver(dir string, of Of, file Opener, shown shownOf) error {
	old := of.OldPath(dir)
	info, err := os.Stat(old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the journal of an older release: %w", err)
	}
	lock, err := lockFile(old + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	why, cause := "other-log", errors.New("it names no log, and this log does not show that it is its own")
	l, unread := ReadLedger(old)
	_, newer := os.Stat(of.Path(dir))
	switch {
	case unread != nil && l.Mixed == nil && !errors.Is(unread, ErrCorrupt):
		return unread
	case unread != nil:
		why, cause = "damaged", unread
	case l.Joined.Agent != "" && (l.Joined.Agent != of.Agent || l.Joined.Workspace != of.Workspace):
		return nil // another agent's: its name was not unambiguous
	case newer == nil:
		why, cause = "older", errors.New("there is one that names its log")
	default:
		ours, err := shown(l, info.ModTime())
		if err != nil {
			return fmt.Errorf("%w: whether %s is of this log: %w", ErrNotKnown, old, err)
		}
		if ours {
			return moveTo(l, old, of, dir, file)
		}
	}
	to, err := setAside(old, why)
	if err != nil {
		return err
	}
	d.log.Error("the journal of an older release is not used: moved aside. "+WithIt, "path", to, "cause", cause)
	return os.Remove(old + ".lock")
}

// ErrNotKnown is returned by Journal.Open when the log could not be asked.
var ErrNotKnown = errors.New("not known yet")

// moveTo writes what an older journal comes to into one that names its log.
func moveTo(l *Ledger, old string, of Of, dir string, file Opener) error {
	l.Of = of
	records, err := l.Records()
	if err != nil {
		return fmt.Errorf("move the journal of an older release: %w", err)
	}
	j, err := WriteWhole(of.Path(dir), file, records)
	if err != nil {
		return err
	}
	return errors.Join(j.Close(), os.Remove(old), os.Remove(old+".lock"))
}

// Claims is what a journal says of its log: which decisions are joins of its agent, and which decide its transactions.
func (l *Ledger) Claims() (from, to sequencer.Seq, joins map[sequencer.Seq]bool,
	decided map[sequencer.Seq]*DecidedRecord) {
	from, to = l.Joined.Incarnation, l.Joined.Incarnation
	joins, decided = map[sequencer.Seq]bool{from: true}, map[sequencer.Seq]*DecidedRecord{}
	for _, t := range l.Txs {
		d := t.Decided
		if d != nil && d.Seq > 0 {
			decided[d.Seq] = d
			to = max(to, d.Seq)
		}
		if !t.Foreign && (d == nil || !d.Final) && !t.Vain(l.Joined.Incarnation) {
			joins[t.Incarnation] = true
			from = min(from, t.Incarnation)
		}
	}
	return from, to, joins, decided
}
