package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/hence-dev/hence/gate/failpoint"
)

// Open locks and reads the journal of an agent and a log in a folder; an empty folder name keeps everything in memory
// only. An older journal, which names no log, is taken over if shown says that it is of this one.
func (d *Journal) Open(dir string, of Of, file Opener, shown shownOf) error {
	l := newLedger()
	var j *File
	var lock *os.File
	if dir == "" {
		d.log.Warn("no data folder: the delivery log is in memory only, a crash loses the session")
	} else {
		var err error
		if lock, err = lockFile(of.Path(dir) + ".lock"); err != nil {
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
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.lock, d.file, d.Ledger = lock, j, l
	for _, ev := range l.Pending {
		d.push(&outgoing{ev: ev})
	}
	return nil
}

// read opens a journal and what its records come to. One that cannot be used, or is not of this log and agent, is
// moved aside and another one is begun. What the agent read before may be in any journal that is newer than this one:
// then it is owed a 410.
func (d *Journal) read(dir string, of Of, file Opener) (j *File, l *Ledger, err error) {
	path, l := of.Path(dir), newLedger()
	elsewhere := newerThan(dir, of)
	j, err = openFile(path, file, d.log, l.apply)
	failpoint.Hit(failpoint.StartRead)
	switch {
	case j == nil || err != nil && !errors.Is(err, ErrCorrupt):
		return nil, nil, err
	case err != nil: // openJournal has moved it aside
	case l.Of != of && (l.Of != Of{} || len(l.Txs) > 0 || l.Joined.Incarnation != 0):
		err = d.foreign(j, "other-log", fmt.Errorf("it is that of %s", l.Of))
	case l.Mixed != nil:
		err = d.foreign(j, "damaged", l.Mixed)
	case l.Of == of:
		if elsewhere {
			err = owe(j, l)
		}
		return j, l, err
	}
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return nil, nil, errors.Join(err, j.Close())
	}
	elsewhere = elsewhere || newerThan(dir, of) // also what was just moved aside
	l = newLedger()
	l.Of, l.Notice.Owed = of, elsewhere
	records, err := l.Records()
	if err == nil {
		err = j.rewrite(records)
	}
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return j, l, nil
}

// owe notes that each conversation of the agent has to be told to read again.
func owe(j *File, l *Ledger) error {
	if l.Notice.Owed && len(l.Notice.Told) == 0 { // it is in the journal
		return nil
	}
	body, err := json.Marshal(NoticeRecord{Owed: true})
	if err != nil {
		return fmt.Errorf("encode a journal record: %w", err)
	}
	l.Notice.Owe()
	return j.append(RecordNotice, body)
}
