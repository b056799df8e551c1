package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology/pause"
)

// startMax is the longest pause between two looks at topics that are not there yet.
const startMax = 2 * time.Second

// startable waits for Kafka and for the topics, however long that takes; it creates them if it may. It refuses to
// start on topics that would split or lose state.
func startable(ctx context.Context, cfg Config) error {
	said, pauses := "", pause.Doubling{Least: restartMin, Most: startMax}
	for {
		missing, err := cfg.lookAtTopics(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, errMisfit) && !missing {
			return err
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			cfg.Logger.Warn("the processors wait", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("check the topics: %w", errors.Join(err, ctx.Err()))
		case <-cfg.Clock.After(pauses.Next()):
		}
	}
}

// lookAtTopics looks once; missing says that topics are, and nothing else is wrong with them.
func (c Config) lookAtTopics(ctx context.Context) (missing bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startCheckIn)
	defer cancel()
	if missing, err = c.misfits(ctx); missing && c.CreateTopics {
		if err = EnsureTopics(ctx, c); err == nil {
			missing, err = c.misfits(ctx)
		}
	}
	if err == nil {
		c.Health.set(partKafka, nil)
		c.Health.set(partTopics, nil)
		return false, nil
	}
	var answer *kerr.Error
	if errors.Is(err, errMisfit) || errors.As(err, &answer) {
		c.Health.set(partTopics, err)
		return missing, err
	}
	err = c.kafkaAway(err)
	c.Health.set(partKafka, err)
	return true, err
}

// errMisfit keeps apart what Kafka has said of the topics from what kept it from saying anything.
var errMisfit = fmt.Errorf("%w are not as they must be", ErrTopics)

// misfits compares the topics with what they must be.
func (c Config) misfits(ctx context.Context) (missing bool, err error) {
	problems, err := VerifyTopics(ctx, c)
	if err != nil || len(problems) == 0 {
		return false, err
	}
	missing = true
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i], missing = p.String(), missing && p.What == TopicMissing
	}
	return missing, fmt.Errorf("%w:\n%s", errMisfit, strings.Join(lines, "\n"))
}

// kafkaAway explains why no broker could be used, where the client's error does not say what to do about it.
func (c Config) kafkaAway(err error) error {
	where := strings.Join(c.Brokers, ",")
	hint := ""
	var first *kgo.ErrFirstReadEOF
	switch { // some brokers close the connection instead of saying that a login is wrong
	case errors.Is(err, kerr.SaslAuthenticationFailed), c.Kafka.SASL != "" && errors.Is(err, io.EOF):
		hint = ": the login was refused: look at --kafka-user and --kafka-password-file"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		hint = ": the broker does not know this login: look at --kafka-sasl"
	case strings.Contains(err.Error(), "tls alert record"):
		hint = ": it speaks TLS: give --kafka-tls, or --kafka-ca"
	case errors.As(err, &first):
		hint = ": it closes the connection at once: does it want TLS (--kafka-tls) or a login (--kafka-sasl)?"
	case strings.Contains(err.Error(), "x509:"):
		hint = ": its certificate is not trusted: look at --kafka-ca and --kafka-server-name"
	case strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		hint = ": it does not speak TLS: leave --kafka-tls and --kafka-ca away, or use its TLS port"
	}
	return fmt.Errorf("reach Kafka at %s%s: %w", where, hint, err)
}
