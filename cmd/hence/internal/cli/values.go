package cli

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/bench"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/postgres"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/redis"
	"github.com/hence-dev/hence/cmd/hence/internal/demo"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// checkValues says which flag of the selected command has a value of the right kind that cannot be used.
func checkValues(line *kong.Context) error {
	node := line.Selected()
	if node == nil {
		return nil
	}
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			rule := ruleOf(node.Name, flag.Name)
			if value := reflect.Indirect(flag.Target); rule != nil && value.IsValid() {
				if err := rule(value.Interface()); err != nil {
					return fmt.Errorf("--%s is %s: %w", flag.Name, masked(flag.Name, written(value.Interface())), err)
				}
			}
		}
	}
	return nil
}

// rule says what is wrong with a flag's value: what to give instead.
type rule func(value any) error

// ruleOf is the rule of a flag; nil: every value of its type can be used, or only the command can tell.
func ruleOf(command, flag string) rule {
	switch flag {
	case "workspace":
		return func(v any) error { return topology.ValidWorkspace(v.(string)) }
	case "url", "sidecar":
		return isURL
	case "listen":
		return isAddress
	case "brokers":
		return isBrokers
	case "nats":
		return isNATS
	case "partitions":
		return isPartitions
	case "port", "kafka-port", "nats-port", "console-port":
		return within(0, math.MaxUint16)
	case "replication":
		return within(1, 1000)
	case "nats-replicas":
		return within(1, 5)
	case "grace", "settle":
		return lasting(1, 24*time.Hour)
	case "idle-after":
		return lasting(time.Second, 24*time.Hour)
	case "timeout":
		return lasting(1, time.Hour)
	case "hook-timeout":
		return lasting(0, time.Minute)
	case "plan-wait": // a request that waits longer is ended by its own bound, of 30 s
		return lasting(time.Millisecond, 25*time.Second)
	case "window":
		return within(0, maxOperations)
	case "anomalies-window":
		return within(1, streams.MaxAnomalies)
	case "sbus-max-delta":
		return within(0, 16<<20)
	case "sbus-session-ttl":
		return lasting(time.Second, 30*24*time.Hour)
	case "limit":
		switch command { // 0: all
		case "tail":
			return within(0, math.MaxUint64)
		case "check", "replay", "audit", "dry-run":
			return within(0, maxOperations)
		}
		return within(1, 1000)
	}
	if command == "tables" {
		return ruleOfTables(flag)
	}
	if command == "measure" || command == "soak" {
		return ruleOfBench(flag)
	}
	return ruleOfRuns(flag)
}

// ruleOfBench are the rules of what a benchmark is told; zero is what its subject takes by itself.
func ruleOfBench(flag string) rule {
	switch flag {
	case "runs":
		return within(1, bench.MaxRuns)
	case "seconds":
		return within(0.1, bench.MaxFor.Seconds())
	case "clients", "agents", "workspaces":
		return within(0, bench.MaxClients)
	case "past":
		return within(0, bench.MaxPast)
	case "shards":
		return within(0, bench.MaxShards)
	case "rate":
		return within(0, bench.MaxRate)
	case "minutes", "from":
		return within(0, bench.MaxSoak.Minutes())
	case "rate-of-ceiling":
		return within(0.01, 2)
	case "every":
		return within(0.1, bench.MaxFor.Seconds())
	}
	return nil
}

// ruleOfTables are the rules of what runs beside Hence.
func ruleOfTables(flag string) rule {
	address := func(of func(string) (string, error), give string) rule {
		return func(v any) error {
			if text := v.(string); text != "" {
				if _, err := of(text); err != nil {
					return fmt.Errorf("give %s", give)
				}
			}
			return nil
		}
	}
	switch flag {
	case "postgres":
		return address(postgres.Address, "postgres://user@host:port/database")
	case "redis":
		return address(redis.Address, "redis://host:port")
	case "sbus":
		return isURL
	}
	return nil
}

// ruleOfRuns are the rules of what a demo, a simulation or a fuzzer is told.
func ruleOfRuns(flag string) rule {
	switch flag {
	case "agents":
		return within(1, demo.MaxAgents)
	case "tasks":
		return within(0, demo.MaxTasks)
	case "think":
		return lasting(0, demo.MaxThink)
	case "faults":
		return within(0, demo.MaxFaults)
	case "n":
		return within(1, policy.MaxRewrites)
	case "schedules":
		return within(1, maxSchedules)
	case "steps":
		return within(0, maxSteps)
	}
	return nil
}

// within is the rule of a number.
func within(least, most float64) rule {
	return func(v any) error {
		n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil || !(n >= least && n <= most) { // not a number is outside, too
			return fmt.Errorf("give %s to %s", plainNumber(least), plainNumber(most))
		}
		return nil
	}
}

func plainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// lasting is the rule of a duration.
func lasting(least, most time.Duration) rule {
	return func(v any) error {
		switch d := v.(time.Duration); {
		case d >= least && d <= most:
			return nil
		case least > 0:
			return fmt.Errorf("give more than 0 and at most %s", most)
		}
		return fmt.Errorf("give at least 0 and at most %s", most)
	}
}

// isURL is the rule of where a sidecar or a hook is.
func isURL(v any) error {
	if text := v.(string); text != "" {
		if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("give http://host:port")
		}
	}
	return nil
}

// isAddress is the rule of addresses to listen on.
func isAddress(v any) error {
	for _, address := range listOf(v) {
		_, port, err := net.SplitHostPort(address)
		if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil {
			return fmt.Errorf("give host:port, such as 127.0.0.1:7420")
		}
	}
	return nil
}

// isBrokers is the rule of Kafka brokers; one without a port has Kafka's own.
func isBrokers(v any) error {
	for _, broker := range v.([]string) {
		if broker == "" || strings.ContainsAny(broker, "/ ") || strings.Contains(broker, ":") && isAddress(broker) != nil {
			return fmt.Errorf("give host:port, several with commas")
		}
	}
	return nil
}

func listOf(v any) []string {
	if list, ok := v.([]string); ok {
		return list
	}
	return []string{v.(string)}
}

// isNATS is the rule of NATS servers.
func isNATS(v any) error {
	for text := range strings.SplitSeq(v.(string), ",") {
		text = strings.TrimSpace(text)
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		if u, err := url.Parse(text); v.(string) != "" && (err != nil || u.Host == "") {
			return fmt.Errorf("give nats://host:port, several with commas")
		}
	}
	return nil
}

// isPartitions is the rule of how many partitions a topic has.
func isPartitions(v any) error {
	if n := v.(int32); n < 1 || n > topology.MaxPartitions || n&(n-1) != 0 {
		return fmt.Errorf("give a power of two up to %d", topology.MaxPartitions)
	}
	return nil
}

// parsed is a text as the flag's value.
func parsed(flag *kong.Flag, text string) (reflect.Value, error) {
	value := reflect.New(flag.Target.Type()).Elem()
	return value, flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text}), value)
}

// isTrue says whether a text turns a flag on.
func isTrue(flag *kong.Flag, text string) bool {
	value, err := parsed(flag, text)
	return err == nil && value.Bool()
}

// written is a value as one would write it on a command line.
func written(value any) string {
	if list, ok := value.([]string); ok {
		return strings.Join(list, ",")
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		value = v.Elem().Interface()
	}
	return fmt.Sprint(value)
}

const mask = "********"

// masked hides what must not be shown: a secret, and who logs in within an address.
func masked(name, value string) string {
	last := name[strings.LastIndexByte(name, '-')+1:]
	if value != "" && slices.Contains([]string{"token", "password", "secret", "passphrase"}, last) {
		return mask
	}
	return regexp.MustCompile(`://[^/@\s]*@`).ReplaceAllString(value, "://"+mask+"@")
}

// flagOf finds a flag by how it is written.
func flagOf(node *kong.Node, written string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if written == "--"+f.Name || f.Short != 0 && written == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}
