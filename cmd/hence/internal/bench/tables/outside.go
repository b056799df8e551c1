package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"net/url"
	"strings"

	"github.com/hence-dev/hence/gate/sinks"
)

// gateRuns are the rows about effects: what leaves, what is taken back, and what a policy says of it.
func gateRuns() map[string]run {
	return map[string]run{"A19": invalidSends, "A20": validSends, "A21": around, "A22": linesToDeclare, "A23": tagged,
		"A24": wrongClass, "A28": stepCost, "A32": hooked, "A35": oneName, "A36": annotated, "A37": linesOfAdapters,
		"A41": onceEach}
}

// outside is what tools act on: a mail server, a service with a ledger, and a service that fails and hangs. It also
// has a hook, which is asked over HTTP whether work may be kept.
type outside struct {
	ledger *sinks.Ledger
	mail   *sinks.Mailbox
	broken string // /fail answers with an error, /hang does not answer
	rules  string // the policy of tools over these
	judge  string
	client *http.Client
	end    context.CancelFunc
}

// openOutside starts the services, and reads the policy of that name with their addresses in it. The caller closes
// them. A run whose arguments the judge does not like is vetoed.
func openOutside(ctx context.Context, policy string, judge func(args map[string]any) bool) (o *outside, err error) {
	serving, end := context.WithCancel(ctx)
	o = &outside{end: end, client: &http.Client{Transport: new(http.Transport)}}
	broken := http.NewServeMux()
	broken.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	broken.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees a sender go only once it has read all
		<-r.Context().Done()
	})
	if o.broken, err = serve(serving, broken); err == nil {
		o.judge, err = serve(serving, judging(judge))
	}
	if err == nil {
		o.ledger, err = sinks.StartLedger(sinks.LedgerOptions{})
	}
	if err == nil {
		o.mail, err = sinks.StartMailbox(sinks.MailboxOptions{})
	}
	if err == nil {
		o.rules, err = o.read(policy)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start what tools act on: %w", err), o.close())
	}
	return o, nil
}

// close ends the services.
func (o *outside) close() (err error) {
	o.end()
	o.client.CloseIdleConnections()
	if o.ledger != nil {
		err = o.ledger.Close()
	}
	if o.mail != nil {
		err = errors.Join(err, o.mail.Close())
	}
	return err
}

// judging is a hook.
func judging(likes func(args map[string]any) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Effects []struct {
				Args map[string]any `json:"args"`
			} `json:"effects"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		yes := true
		for _, e := range in.Effects {
			yes = yes && likes(e.Args)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"yes": yes, "reason": "it is not what was asked for"})
	})
}

// read reads a policy of the folder of claims over these services.
func (o *outside) read(name string) (string, error) {
	text, err := claims.ReadFile("claims/" + name)
	if err != nil {
		return "", fmt.Errorf("read the policy of a row: %w", err)
	}
	broken, err := url.Parse(o.broken)
	if err != nil {
		return "", fmt.Errorf("read where a service is: %w", err)
	}
	return strings.NewReplacer("{{ledger}}", o.ledger.Addr(), "{{mail}}", o.mail.Addr(), "{{broken}}",
		broken.Host).Replace(string(text)), nil
}

// sent is how often each run has left, by either way.
func (o *outside) sent() (map[string]int, error) {
	all := map[string]int{}
	for _, e := range o.ledger.Entries() {
		if e.Path != "/send" {
			continue
		}
		var body struct {
			Run string `json:"run"`
		}
		if err := json.Unmarshal(e.Body, &body); err != nil {
			return nil, fmt.Errorf("read what the ledger has: %w", err)
		}
		all[body.Run]++
	}
	for _, m := range o.mail.Mails() {
		all[m.Subject]++
	}
	return all, nil
}

// post asks a service for something as a program without Hence does.
func (o *outside) post(ctx context.Context, at string, body any, headers ...string) (answer []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call a service: %w", err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("a service answered %s", resp.Status)
	}
	return answer, err
}

// letter sends a mail.
func (o *outside) letter(run string) error {
	text := fmt.Sprintf("From: agent@example.com\r\nTo: customer@example.com\r\nSubject: %s\r\n\r\nIt is done.\r\n", run)
	err := smtp.SendMail(o.mail.Addr(), nil, "agent@example.com", []string{"customer@example.com"}, []byte(text))
	if err != nil {
		return fmt.Errorf("send a mail: %w", err)
	}
	return nil
}

// web tells the service of the ledger, without a key.
func (o *outside) web(ctx context.Context, run string) error {
	_, err := o.post(ctx, o.ledger.URL()+"/send", map[string]string{"run": run})
	return err
}

// take takes a part for a run, and give gives it back.
func (o *outside) take(ctx context.Context, run string, part int) error {
	_, err := o.post(ctx, o.ledger.URL()+"/take", map[string]any{"run": run, "tx": run, "index": part},
		"Idempotency-Key", fmt.Sprint(run, "/", part))
	return err
}

func (o *outside) give(ctx context.Context, run string, part int) error {
	_, err := o.post(ctx, o.ledger.URL()+"/give", map[string]any{"run": run, "tx": run, "index": part},
		"Hence-Compensates", fmt.Sprint(run, "/", part))
	return err
}
