package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hence-dev/hence/gate/sinks"
)

// keepMails is how many of the latest mails can be looked at.
const keepMails = 5_000

// runMail takes mail and lists what it took; nothing is passed on, and a restart forgets it.
func runMail(ctx context.Context, listen, smtp string) error {
	box, err := sinks.StartMailbox(sinks.MailboxOptions{Listen: smtp, Keep: keepMails, Dedup: true})
	if err != nil {
		return fmt.Errorf("start the mail server, choose another address with --smtp: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /mails", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, box.Mails()) })
	return errors.Join(serve(ctx, "mail", listen, mux), box.Close())
}
