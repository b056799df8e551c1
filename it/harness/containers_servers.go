package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Names of the servers in their network.
const (
	aliasKafka = "kafka"
	aliasNATS  = "nats"
)

// Ports inside of the containers.
const (
	portInside     = "9092" // of Kafka, for other containers
	portController = "9093"
	portOutside    = "9094" // of Kafka, for this machine
	portNATS       = "4222"
	portRoutes     = "6222" // between servers of NATS
)

// Fleet are servers in containers.
type Fleet struct {
	*Servers
	Net   *Net
	Kafka []*Box
	NATS  []*Box
	// Addresses in the network, for other containers.
	InsideBrokers []string
	InsideNATS    string
}

// OpenFleet starts a number of brokers and of NATS servers as containers that end with the test. Three brokers
// replicate by three and acknowledge with two.
func OpenFleet(tb testing.TB, brokers, nats int) *Fleet {
	tb.Helper()
	f, err := fillNet(OpenNet(tb), brokers, nats)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// shared starts the servers of a package's tests as containers, once, and names them in the environment. The returned
// function removes them.
var shared = sync.OnceValues(startShared)

func startShared() (stop func() error, err error) {
	n, err := openNet()
	if err != nil {
		return nil, err
	}
	f, err := fillNet(n, 1, 1)
	if err == nil {
		err = errors.Join(os.Setenv(EnvKafka, strings.Join(f.Brokers, ",")), os.Setenv(EnvNATS, f.Servers.NATS))
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	fmt.Fprintf(os.Stderr, "%s=1: the suite runs on containers of %s and %s, kafka %s, nats %s\n", EnvContainers,
		imageKafka, imageNATS, os.Getenv(EnvKafka), os.Getenv(EnvNATS))
	return n.Close, nil
}

func fillNet(n *Net, brokers, nats int) (*Fleet, error) {
	f := &Fleet{Net: n, Servers: &Servers{Kind: "containers"}}
	f.control = f
	ports, err := FreePorts(brokers + nats)
	if err != nil {
		return nil, err
	}
	recipes := append(kafkaRecipes(ports[:brokers]), natsRecipes(ports[brokers:])...)
	boxes, err := n.AddAll(recipes)
	if err != nil {
		return nil, err
	}
	f.Kafka, f.NATS = boxes[:brokers], boxes[brokers:]
	for i := range brokers {
		f.Brokers = append(f.Brokers, local(ports[i]))
		f.InsideBrokers = append(f.InsideBrokers, nth(aliasKafka, i)+":"+portInside)
	}
	var urls, inside []string
	for i := range nats {
		urls = append(urls, "nats://"+local(ports[brokers+i]))
		inside = append(inside, "nats://"+nth(aliasNATS, i)+":"+portNATS)
	}
	f.Servers.NATS, f.InsideNATS = strings.Join(urls, ","), strings.Join(inside, ",")
	return f, nil
}

func nth(alias string, i int) string { return fmt.Sprint(alias, "-", i+1) }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// FreePorts are ports that are free now. They lie below those from which systems number outgoing connections, so none
// takes one of them while what listens there is started again.
func FreePorts(n int) ([]int, error) {
	const least, most, tries = 16_384, 32_767, 1_000
	var all []int
	for range tries {
		if len(all) == n {
			return all, nil
		}
		port := least + rand.IntN(most-least)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue // another has it
		}
		defer l.Close()
		all = append(all, port)
	}
	return nil, fmt.Errorf("no %d ports between %d and %d are free", n, least, most)
}

func kafkaRecipes(ports []int) (all []Recipe) {
	var voters []string
	for i := range ports {
		voters = append(voters, fmt.Sprintf("%d@%s:%s", i+1, nth(aliasKafka, i), portController))
	}
	copies, inSync := "1", "1"
	if len(ports) >= 3 {
		copies, inSync = "3", "2"
	}
	for i, port := range ports {
		name := nth(aliasKafka, i)
		env := map[string]string{
			"CLUSTER_ID": "hence-it-AAAAAAAAAAAAA", "KAFKA_HEAP_OPTS": "-Xms200m -Xmx400m " + briefly,
			"KAFKA_NODE_ID": strconv.Itoa(i + 1), "KAFKA_PROCESS_ROLES": "broker,controller",
			"KAFKA_CONTROLLER_QUORUM_VOTERS":  strings.Join(voters, ","),
			"KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER", "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
			"KAFKA_LISTENERS": "INSIDE://:" + portInside + ",OUTSIDE://:" + portOutside + ",CONTROLLER://:" +
				portController,
			"KAFKA_ADVERTISED_LISTENERS":           "INSIDE://" + name + ":" + portInside + ",OUTSIDE://" + local(port),
			"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
			"KAFKA_LOG_DIRS":                       "/var/lib/kafka/data", "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
			"KAFKA_NUM_PARTITIONS": "4", "KAFKA_DEFAULT_REPLICATION_FACTOR": copies, "KAFKA_MIN_INSYNC_REPLICAS": inSync,
			"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": copies, "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
			"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": copies, "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": inSync,
			"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": copies,
			"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS":                 "0", "KAFKA_BROKER_SESSION_TIMEOUT_MS": "3000",
			"KAFKA_BROKER_HEARTBEAT_INTERVAL_MS":          "500",
			"KAFKA_CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS": "500", "KAFKA_CONTROLLER_QUORUM_FETCH_TIMEOUT_MS": "1000",
		}
		all = append(all, Recipe{Image: imageKafka, Alias: name, Env: env, Ports: map[string]int{portOutside: port},
			Log: "Kafka Server started", Answers: func(ctx context.Context) error { return kafkaAnswers(ctx, local(port)) }})
	}
	return all
}

// kafkaAnswers asks a broker who else there is.
func kafkaAnswers(ctx context.Context, address string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer cl.Close()
	seen, err := kadm.NewClient(cl).BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("ask Kafka at %s: %w", address, err)
	}
	for _, b := range seen.Brokers {
		if net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) == address {
			return nil
		}
	}
	return fmt.Errorf("kafka at %s knows %d brokers and is not among them", address, len(seen.Brokers))
}

func natsRecipes(ports []int) (all []Recipe) {
	var routes []string
	for i := range ports {
		routes = append(routes, "nats-route://"+nth(aliasNATS, i)+":"+portRoutes)
	}
	for i, port := range ports {
		cmd := []string{"--jetstream", "--store_dir", "/tmp/jetstream", "--name", nth(aliasNATS, i), "--no_advertise"}
		if len(ports) > 1 {
			cmd = append(cmd, "--cluster_name", "hence", "--cluster", "nats://0.0.0.0:"+portRoutes,
				"--routes", strings.Join(routes, ","))
		}
		all = append(all, Recipe{Image: imageNATS, Alias: nth(aliasNATS, i), Cmd: cmd, Ports: map[string]int{portNATS: port},
			Log: "Server is ready", Answers: func(ctx context.Context) error { return natsAnswers(ctx, local(port)) }})
	}
	return all
}

// natsAnswers reads the line with which a server greets: a published port alone answers without one.
func natsAnswers(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return err
		}
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read what NATS at %s says: %w", address, err)
	}
	if !strings.HasPrefix(line, "INFO ") {
		return fmt.Errorf("who answers at %s is not NATS: %q", address, line)
	}
	return nil
}

// KillKafka ends every broker without a farewell.
func (f *Fleet) KillKafka() error { return each(f.Kafka, (*Box).Kill) }

// UpKafka starts every broker again and waits until they answer.
func (f *Fleet) UpKafka() error {
	return errors.Join(each(f.Kafka, (*Box).Start), each(f.Kafka, (*Box).Serving))
}

// KillNATS ends every NATS server without a farewell.
func (f *Fleet) KillNATS() error { return each(f.NATS, (*Box).Kill) }

// UpNATS starts every NATS server again and waits until they answer.
func (f *Fleet) UpNATS() error {
	return errors.Join(each(f.NATS, (*Box).Start), each(f.NATS, (*Box).Serving))
}

func each(boxes []*Box, do func(*Box) error) error {
	var errs []error
	for _, b := range boxes {
		errs = append(errs, do(b))
	}
	return errors.Join(errs...)
}
