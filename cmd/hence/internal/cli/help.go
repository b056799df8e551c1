package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// groups are the headings of the commands in "hence --help".
func groups() kong.Option {
	return kong.ExplicitGroups([]kong.Group{
		{Key: "start", Title: "Start:"},
		{Key: "see", Title: "Watch:"},
		{Key: "repair", Title: "Repair:"},
		{Key: "policy", Title: "Declare tools:"},
		{Key: "operate", Title: "Operate:"},
	})
}

// printHelp is kong's help, one line for each command, with examples below.
func printHelp(line *kong.Context) error {
	options := kong.HelpOptions{Compact: true, NoExpandSubcommands: true, ValueFormatter: kong.DefaultHelpValueFormatter}
	if err := kong.DefaultHelpPrinter(options, line); err != nil {
		return err
	}
	path := ""
	if line.Selected() != nil {
		path = commandPath(line.Selected())
	}
	var lines []string
	for _, one := range examples() {
		if one.path == path {
			lines = append(lines, "  "+one.line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(line.Stdout, "\nExamples:\n%s\n", strings.Join(lines, "\n"))
	return err
}

// commandPath is a command as it is typed, without "hence" and its arguments.
func commandPath(node *kong.Node) string {
	if node.Parent == nil {
		return ""
	}
	return strings.TrimSpace(commandPath(node.Parent) + " " + node.Name)
}

// example is one line that a command's help shows.
type example struct{ path, line string }

// examples are all of them; a test holds that each can be parsed and that no command is without.
func examples() []example {
	var all []example
	for _, line := range strings.Split(strings.TrimSpace(exampleLines), "\n") {
		path, line, _ := strings.Cut(line, ": ")
		if path == "hence" {
			path = ""
		}
		all = append(all, example{path, "hence " + line})
	}
	return all
}

const exampleLines = `
hence: dev
hence: run --agent ann -- python3 agent.py
hence: tx ls --state aborted
dev: dev --policy docs/examples/notes.yaml
dev: dev --random-ports --data-dir ./kept
run: run --agent ann -- python3 agent.py
dev: dev --anomalies
run: run --agent ann --embedded --policy policy.yaml -- ./agent
up: up -f agents.yaml
demo: demo --agents 32 --faults 0.2
env: env --shell fish
tail: tail --agent ann --since 10m
tail: tail -o json --limit 100
tx: tx ls --agent ann
tx ls: tx ls --state aborted --code stale_read
tx ls: tx ls --agent ann --limit 20 -o json
tx show: tx show ann.1.1
tx abort: tx abort ann.1.1 --reason 'the plan was dropped'
effects: effects ls --state held
effects ls: effects ls --state held
effects ls: effects ls --tx ann.1.1 -o json
effects approve: effects approve ann.1.1 0
effects deny: effects deny ann.1.1 0
replay: replay --mode enforce
replay: replay --order locked --level L2 --svg replay.svg
replay: replay --from shop.tar --mode enforce
check: check docs/examples/history.jsonl
check: check trace.jsonl --html trace.html
export: export --workspace shop -o trace.jsonl
export: export --tx ann.1.1
check: check --topology docs/examples/layers/swarm.yaml
export: export --workspace shop --bundle shop.tar
audit: audit --workspace shop --trust trust.pem
audit: audit --from shop.tar --trust trust.pem
agents: agents ls
agents ls: agents ls -o json
shard: shard put orders/1 paid
shard ls: shard ls orders
shard get: shard get orders/1
shard get: shard get orders/1 --version 17 -o json
shard put: shard put orders/1 paid --if-version 0
shard put: shard put reports/today - --media-type text/markdown
tools: tools ls
tools ls: tools ls --server policy
explain: explain ann.1.1
console: console --listen 127.0.0.1:8080
retract: retract ann.1.1 --dry-run
retract: retract ann.1.1 --reason 'a wrong price'
residue: residue ls
residue ls: residue ls --state all --tool mail.send
residue show: residue show ann.1.1 0
residue retry: residue retry ann.1.1 0
residue accept: residue accept ann.1.1 0 --note 'refunded by hand'
rules: rules get
rules get: rules get -o json
rules set: rules set --horizon-seqs 5000
rules set: rules set --no-observe
doctor: doctor
doctor: doctor --brokers kafka-1:9092 --nats nats://nats-1:4222
policy: policy lint policy.yaml
policy lint: policy lint policy.yaml
policy test: policy test policy.yaml
policy explain: policy explain policy.yaml mail.send '{"to":"a@x.org"}'
policy fuzz: policy fuzz policy.yaml --n 100000
policy schema: policy schema
policy init: policy init --from mcp.json
policy dry-run: policy dry-run policy.yaml
policy dry-run: policy dry-run policy.yaml --limit 0 -o json
mcp: mcp ls --from mcp.json
mcp ls: mcp ls --from mcp.json -o json
mcp status: mcp status
mcp stdio: mcp stdio
mcp stdio: mcp stdio --server files
client: client config claude-code
client config: client config langgraph --url http://127.0.0.1:7420
keys: keys new ann --out ann.key
keys new: keys new ann --out ann.key
keys new: keys new olga --role operator --out olga.key
keys show: keys show ann --key-file ann.key -o json
keys sign: keys sign GET http://127.0.0.1:7420/v1/residue --key-file ann.key
sidecar: sidecar --agent ann --brokers kafka-1:9092 --nats nats://nats-1:4222 --token-file ./token
streams: streams --brokers kafka-1:9092 --nats nats://nats-1:4222 --replication 3
streams: streams --sign-key sign.pem
streams: streams --anomalies --anomalies-window 5000
topics: topics verify
topics create: topics create --replication 3
topics verify: topics verify
topics print: topics print --replication 3 -o json
topology: topology check topology.yaml
topology check: topology check topology.yaml
topology check: topology check topology.yaml --dot
topology check: topology check
topology names: topology names
healthcheck: healthcheck --url http://127.0.0.1:7421
pause: pause
config: config print run
config print: config print run --agent ann --grace 5s
sim: sim --seed 7 --schedules 1000
torture: torture report --book trust
torture report: torture report --book trust --doc docs/trust.md
bench: bench throughput --seconds 2
bench: bench --all --brokers kafka-1:9092 --nats nats://nats-1:4222 -o json
bench measure: bench latency contention --runs 5
bench measure: bench throughput --postgres postgres://me@127.0.0.1/test --clients 32
bench measure: bench growth --curves shards --shards 10000
bench soak: bench soak --minutes 5
bench soak: bench soak --brokers kafka-1:9092 --nats nats://nats-1:4222 --svg soak.svg
bench tables: bench tables --paper light-cone
bench tables: bench tables --row C1 --row D1 --size full -o json
bench tables: bench tables --row S17 --postgres postgres://me@127.0.0.1/test --redis redis://127.0.0.1:6379
bench compare: bench compare before.json after.json
completion: completion bash
version: version -o json
`
