package script

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// approvalOf reads one word of an approver: index;by=name;args=hash.
func approvalOf(v *sequencer.Verdict, yes bool, value string) error {
	a := sequencer.Approval{Yes: yes}
	head, err := options(value, func(key, value string) (err error) {
		switch key {
		case "by":
			a.By, err = unquote(value)
		case "args":
			err = argsOf(value, &a.Args)
		default:
			return errors.New("an approval has by and args")
		}
		return err
	})
	v.Approvals = append(v.Approvals, a)
	if err != nil {
		return err
	}
	return number(head, &v.Approvals[len(v.Approvals)-1].Index)
}

// argsOf reads the hash of arguments, or arguments to be hashed.
func argsOf(text string, to *sequencer.Hash) error {
	if hash(text, to) == nil {
		return nil
	}
	args, err := unquote(text)
	*to = sha256.Sum256([]byte(args))
	return err
}

func args(h sequencer.Hash) string {
	if h == (sequencer.Hash{}) {
		return ""
	}
	return fmt.Sprintf(";args=%x", h)
}

func approval(a sequencer.Approval) string {
	return fmt.Sprintf("%s=%d;by=%s%s", word(a.Yes), a.Index, name(a.By), args(a.Args))
}

func word(yes bool) string {
	if yes {
		return "approve"
	}
	return "deny"
}
