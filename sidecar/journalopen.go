package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/hence-dev/hence/gate/failpoint"
)

// open locks and reads the journal of an agent and a log in a folder; an empty folder name keeps everything in memory
// only. An older journal, which names no log, is taken over if shown says that it is of this one.
func (d *delivery) open(dir string, of journalOf, file openFile, shown shownOf) error {
	l := newLedger()
	var j *journal
	var lock *os.File
	if dir == "" {
		d.log.Warn("no data folder: the delivery log is in memory only, a crash loses the session")
	} else {
		var err error
		if lock, err = lockFile(of.path(dir) + ".lock"); err != nil {
			return err
		}
		if err = d.takeOver(dir, of, file, shown); err == nil {
			j, l, err = d.read(dir, of, file)
		}
		if err != nil {
			return errors.Join(err, lock.Close())
		}
		d.prune(dir, of)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lock, d.journal, d.ledger = lock, j, l
	for _, ev := range l.pending {
		d.push(&outgoing{ev: ev})
	}
	return nil
}

// read opens a journal and what its records come to. One that cannot be used, or is not of this log and agent, is
// moved aside and another one is begun. What the agent read before may be in any journal that is newer than this one:
// then it is owed a 410.
func (d *delivery) read(dir string, of journalOf, file openFile) (j *journal, l *ledger, err error) {
	path, l := of.path(dir), newLedger()
	elsewhere := newerThan(dir, of)
	j, err = openJournal(path, file, d.log, l.apply)
	failpoint.Hit(failpoint.StartRead)
	switch {
	case j == nil || err != nil && !errors.Is(err, errCorrupt):
		return nil, nil, err
	case err != nil: // openJournal has moved it aside
	case l.of != of && (l.of != journalOf{} || len(l.txs) > 0 || l.joined.Incarnation != 0):
		err = d.foreign(j, "other-log", fmt.Errorf("it is that of %s", l.of))
	case l.mixed != nil:
		err = d.foreign(j, "damaged", l.mixed)
	case l.of == of:
		if elsewhere {
			err = owe(j, l)
		}
		return j, l, err
	}
	if err != nil && !errors.Is(err, errCorrupt) {
		return nil, nil, errors.Join(err, j.close())
	}
	elsewhere = elsewhere || newerThan(dir, of) // also what was just moved aside
	l = newLedger()
	l.of, l.notice.owed = of, elsewhere
	records, err := l.records()
	if err == nil {
		err = j.rewrite(records)
	}
	if err != nil {
		return nil, nil, errors.Join(err, j.close())
	}
	return j, l, nil
}

// owe notes that each conversation of the agent has to be told to read again.
func owe(j *journal, l *ledger) error {
	if l.notice.owed && len(l.notice.told) == 0 { // it is in the journal
		return nil
	}
	body, err := json.Marshal(untoldRecord{Owed: true})
	if err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	l.notice.owe()
	return j.append(recordUntold, body)
}
