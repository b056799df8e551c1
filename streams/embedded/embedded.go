//go:build !slim

package embedded

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Bounds of the servers. A segment bounds what the in-memory broker keeps of a topic that says nothing itself.
const (
	segmentBytes     = "8388608"
	natsReadyIn      = 5 * time.Second
	natsMemoryBytes  = 256 << 20
	natsStoreBytes   = 4 << 30
	defaultPartition = 1
)

// Servers are the two running servers.
type Servers struct {
	Brokers []string // addresses of Kafka
	NATS    string   // URL of NATS

	kafka     *kfake.Cluster
	kafkaOpts []kfake.Opt
	door      *listener // of kafka
	natsOpts  *server.Options
	scratch   string // removed on Close

	mu      sync.Mutex // clients dial while servers stop and start
	nats    *server.Server
	entries map[string]entry // by address, also of servers that have stopped
	copies  sync.WaitGroup   // between clients of this process and NATS
	runs    context.Context  // until nats is to stop: what its clients have not read yet is bounded then
	stop    context.CancelFunc
}

// Start runs both servers; they accept connections when it returns.
func Start(ctx context.Context, o Options) (*Servers, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start the embedded servers: %w", err)
	}
	s := &Servers{entries: make(map[string]entry)}
	if err := s.startKafka(o); err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded Kafka: %w", err), s.Close())
	}
	if err := s.startNATS(o); err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded NATS: %w", err), s.Close())
	}
	return s, nil
}

// Kafka is the broker itself, so that tests can inject faults.
func (s *Servers) Kafka() *kfake.Cluster { return s.kafka }

// Durable reports whether the NATS server keeps its streams on disk.
func (s *Servers) Durable() bool { return s.scratch == "" }

// StopNATS stops the NATS server and waits until it has stopped; StartNATS runs it again.
func (s *Servers) StopNATS() {
	// Clients may be dialling: none begins a copy after it is waited for.
	s.mu.Lock()
	ns, stopping := s.nats, s.stop
	s.nats = nil
	s.mu.Unlock()
	if ns != nil {
		stopping() // else the server waits 10 s for a client that does not read, and its copy for ever
		ns.Shutdown()
		ns.WaitForShutdown()
		s.copies.Wait() // it has closed its connections
	}
}

// StartNATS runs the NATS server, after StopNATS on the port and with the streams that it had.
func (s *Servers) StartNATS() error {
	ns, err := server.NewServer(s.natsOpts)
	if err != nil {
		return fmt.Errorf("configure it: %w", err)
	}
	ns.SetLogger(quiet{}, false, false)
	ns.Start()
	if !ns.ReadyForConnections(natsReadyIn) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("port %d takes no connections after %v", s.natsOpts.Port, natsReadyIn)
	}
	s.NATS = ns.ClientURL()
	s.natsOpts.Port = ns.Addr().(*net.TCPAddr).Port
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nats = ns
	s.runs, s.stop = context.WithCancel(context.Background())
	s.entries[ns.Addr().String()] = s.enterNATS
	return nil
}

// Close stops both servers and waits until their goroutines have ended.
func (s *Servers) Close() error {
	s.StopNATS()
	s.StopKafka()
	if s.scratch == "" {
		return nil
	}
	if err := os.RemoveAll(s.scratch); err != nil {
		return fmt.Errorf("remove the scratch folder of the embedded NATS: %w", err)
	}
	return nil
}

// StopKafka stops the broker and waits until it has stopped; StartKafka runs it again.
func (s *Servers) StopKafka() {
	if s.kafka != nil {
		s.kafka.Close()
		s.door.accept.Wait()
		s.kafka = nil
	}
}

// StartKafka runs the broker, after StopKafka on the port that it had and with the records of its data folder.
func (s *Servers) StartKafka() error {
	cluster, err := kfake.NewCluster(s.kafkaOpts...)
	if err != nil {
		if s.door != nil { // what it keeps could not be read, and nothing else closes the door
			_ = s.door.Close()
			s.door.accept.Wait()
		}
		return fmt.Errorf("listen (is the port taken?): %w", err)
	}
	if s.kafka, s.Brokers = cluster, cluster.ListenAddrs(); len(s.Brokers) != 1 {
		return fmt.Errorf("%d brokers run where one was asked for", len(s.Brokers))
	}
	port, err := Port(s.Brokers[0])
	if err != nil {
		return err
	}
	s.kafkaOpts = append(s.kafkaOpts, kfake.Ports(port))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[s.Brokers[0]] = s.door.enter
	return nil
}

func (s *Servers) startKafka(o Options) error {
	s.kafkaOpts = []kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(o.KafkaPort), kfake.DefaultNumPartitions(defaultPartition),
		kfake.BrokerConfigs(map[string]string{"log.segment.bytes": segmentBytes}),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.ListenFn(func(network, address string) (_ net.Listener, err error) {
			s.door, err = listen(network, address)
			return s.door, err
		}),
	}
	if o.DataDir != "" {
		dir := filepath.Join(o.DataDir, "kafka")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create its data folder: %w", err)
		}
		s.kafkaOpts = append(s.kafkaOpts, kfake.DataDir(dir))
		if o.Sync {
			s.kafkaOpts = append(s.kafkaOpts, kfake.SyncWrites())
		}
	}
	return s.StartKafka()
}

// startNATS always gives JetStream a folder of its own: without one the server would share a folder under the
// system's temporary one with every other server of this machine.
func (s *Servers) startNATS(o Options) error {
	opts := &server.Options{
		ServerName: "hence-embedded", Host: "127.0.0.1", Port: o.NATSPort, NoSigs: true, NoLog: true,
		JetStream: true, JetStreamMaxMemory: natsMemoryBytes, JetStreamMaxStore: natsStoreBytes,
	}
	if o.NATSPort == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if o.DataDir == "" {
		dir, err := os.MkdirTemp("", "hence-nats-")
		if err != nil {
			return fmt.Errorf("create its scratch folder: %w", err)
		}
		s.scratch, opts.StoreDir = dir, dir
	} else {
		opts.StoreDir = filepath.Join(o.DataDir, "nats")
		// As Kafka: decisions that only one of them kept through a loss of power are of no use, and an fsync costs 25 times
		// what the message does.
		opts.SyncAlways = o.Sync
	}
	s.natsOpts = opts
	return s.StartNATS()
}

// quiet drops the NATS server's chatter; what is wrong shows as an error of Start.
type quiet struct{}

func (quiet) Noticef(string, ...any) {}
func (quiet) Warnf(string, ...any)   {}
func (quiet) Debugf(string, ...any)  {}
func (quiet) Tracef(string, ...any)  {}
func (quiet) Errorf(format string, args ...any) {
	log.Printf("embedded NATS: "+format, args...)
}
func (quiet) Fatalf(format string, args ...any) {
	log.Printf("embedded NATS: "+format, args...)
}
