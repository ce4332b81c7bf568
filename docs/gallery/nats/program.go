// NATS JetStream, one server in this process: `default`, or `always`, its setting sync_interval: always.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"gallery/transactions"
)

const (
	directory = "jetstream"
	name      = "rows"
	storeMax  = 1 << 28
	wait      = 10 * time.Second
	repeats   = 8 // of the rows of a transaction in its message, so that it has more than a page
)

// running starts a server without a port, has it used by a client, and shuts it down.
func running(path, setting string, use func(nats.JetStreamContext) error) error {
	options := &server.Options{
		ServerName: "gallery", DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true,
		JetStream: true, JetStreamMaxStore: storeMax, JetStreamMaxMemory: storeMax,
		StoreDir: path, SyncAlways: setting == "always",
	}
	one, err := server.NewServer(options)
	if err != nil {
		return err
	}
	one.Start()
	defer one.WaitForShutdown()
	defer one.Shutdown()
	if !one.ReadyForConnections(wait) {
		return errors.New("the server is not ready")
	}
	client, err := nats.Connect("", nats.InProcessServer(one))
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := client.JetStream(nats.MaxWait(wait))
	if err != nil {
		return err
	}
	return use(stream)
}

func create(setting string) error {
	return running(directory, setting, func(stream nats.JetStreamContext) error {
		_, err := stream.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{name}, Storage: nats.FileStorage})
		return err
	})
}

// message is what a transaction stores: the rows of a queue are one message.
func message(transaction int) []byte {
	return bytes.Repeat(transactions.Value(transaction), transactions.Rows*repeats)
}

func write(setting string) error {
	return running(directory, setting, func(stream nats.JetStreamContext) error {
		for transaction := 1; transaction <= transactions.Count; transaction++ {
			if _, err := stream.Publish(name, message(transaction)); err != nil {
				return err
			}
			transactions.Promise(transaction)
		}
		return nil
	})
}

// find starts a server on it as the next user would, reads every message, and publishes one more.
func find(place string) ([]int, error) {
	found := make([]int, transactions.Count)
	return found, running(filepath.Join(place, directory), "default", func(stream nats.JetStreamContext) error {
		state, err := stream.StreamInfo(name)
		if err != nil {
			return err
		}
		for sequence := max(1, state.State.FirstSeq); sequence <= state.State.LastSeq; sequence++ {
			stored, err := stream.GetMsg(name, sequence)
			if errors.Is(err, nats.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			transaction := int(stored.Data[0])
			if transaction < 1 || transaction > transactions.Count || !bytes.Equal(stored.Data, message(transaction)) {
				return fmt.Errorf("message %d is not what was published", sequence)
			}
			found[transaction-1] = transactions.Rows
		}
		_, err = stream.Publish(name, []byte("more"))
		return err
	})
}

func main() {
	transactions.Main(transactions.Program{
		Make: create, Write: write, Find: find, Module: "github.com/nats-io/nats-server/v2",
	})
}
