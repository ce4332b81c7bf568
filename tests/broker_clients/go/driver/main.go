// Drives RocketMQ's client for Go: each line of standard input is a command, {"do": NAME, ...}, and is answered by a line
// on standard output, {"is": ...} or {"error": TEXT}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const patience = 30 * time.Second

type given struct {
	Do, Namesrv, Broker, Name, Topic, Group, Tag, Key, Expression, Kind, Check string
	Bodies                                                                     []string
	Queue, Queues, Delay, Failures                                             int
	Orderly, Broadcast                                                         bool
	Properties                                                                 map[string]string
}

type received struct {
	Body       string            `json:"body"`
	Queue      int               `json:"queue"`
	Offset     int64             `json:"offset"`
	Reconsumed int32             `json:"reconsumed"`
	Properties map[string]string `json:"properties"`
}

type client struct {
	consumer rocketmq.PushConsumer
	lock     sync.Mutex
	messages []received
	failures int
}

var clients = map[string]*client{}

func resolver(namesrv string) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{namesrv})
}

func messages(g given) []*primitive.Message {
	var made []*primitive.Message
	for _, body := range g.Bodies {
		message := primitive.NewMessage(g.Topic, []byte(body))
		if g.Properties != nil {
			message.WithProperties(g.Properties) // first: it is in place of all there are
		}
		if g.Tag != "" {
			message.WithTag(g.Tag)
		}
		if g.Key != "" {
			message.WithKeys([]string{g.Key})
		}
		if g.Delay > 0 {
			message.WithDelayTimeLevel(g.Delay)
		}
		if g.Queue >= 0 {
			message.Queue = &primitive.MessageQueue{QueueId: g.Queue}
		}
		made = append(made, message)
	}
	return made
}

// chosen sends to the queue that a message names, if it does.
type chosen struct{ otherwise producer.QueueSelector }

func (c chosen) Select(message *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if message.Queue != nil {
		for _, queue := range queues {
			if queue.QueueId == message.Queue.QueueId {
				return queue
			}
		}
	}
	return c.otherwise.Select(message, queues, last)
}

func send(g given) (interface{}, error) {
	if g.Kind == "transaction" {
		return transaction(g)
	}
	made, err := rocketmq.NewProducer(producer.WithNsResolver(resolver(g.Namesrv)), producer.WithGroupName("go-producers"),
		producer.WithInstanceName(g.Name), producer.WithRetry(2), producer.WithQueueSelector(chosen{producer.NewRoundRobinQueueSelector()}))
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	defer made.Shutdown()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all := messages(g)
	var places []map[string]interface{}
	note := func(result *primitive.SendResult) {
		places = append(places, map[string]interface{}{
			"status": int(result.Status), "queue": result.MessageQueue.QueueId, "offset": result.QueueOffset, "id": result.MsgID})
	}
	switch g.Kind {
	case "batch":
		result, err := made.SendSync(ctx, all...)
		if err != nil {
			return nil, err
		}
		note(result)
	case "oneway":
		for _, message := range all {
			if err := made.SendOneWay(ctx, message); err != nil {
				return nil, err
			}
		}
		time.Sleep(500 * time.Millisecond) // what was handed to the connection is on its way when it is closed
	case "async":
		answers := make(chan error, len(all))
		results := make(chan *primitive.SendResult, len(all))
		for _, message := range all {
			err := made.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				if err == nil {
					results <- result
				}
				answers <- err
			}, message)
			if err != nil {
				return nil, err
			}
		}
		for range all {
			select {
			case err := <-answers:
				if err != nil {
					return nil, err
				}
				note(<-results)
			case <-time.After(patience):
				return nil, errors.New("an asynchronous send was not answered")
			}
		}
	default:
		for _, message := range all {
			result, err := made.SendSync(ctx, message)
			if err != nil {
				return nil, err
			}
			note(result)
		}
	}
	return places, nil
}

// undecided leaves a transaction undecided, and decides when it is asked.
type undecided struct {
	state primitive.LocalTransactionState
	asked chan string
}

func (u undecided) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	return primitive.UnknowState
}

func (u undecided) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	u.asked <- string(message.Body)
	return u.state
}

func transaction(g given) (interface{}, error) {
	state := map[string]primitive.LocalTransactionState{
		"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState}[g.Check]
	listener := undecided{state, make(chan string, 100)}
	made, err := rocketmq.NewTransactionProducer(listener, producer.WithNsResolver(resolver(g.Namesrv)),
		producer.WithGroupName("go-transactions-"+g.Check), producer.WithInstanceName(g.Name))
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	defer made.Shutdown()
	for _, message := range messages(g) {
		if _, err := made.SendMessageInTransaction(context.Background(), message); err != nil {
			return nil, err
		}
	}
	var asked []string
	for range g.Bodies {
		select {
		case body := <-listener.asked:
			asked = append(asked, body)
		case <-time.After(patience * 2):
			return nil, errors.New("the broker has not asked about a transaction")
		}
	}
	time.Sleep(500 * time.Millisecond) // the answer is one-way
	return asked, nil
}

func consume(g given) (interface{}, error) {
	model := consumer.Clustering
	if g.Broadcast {
		model = consumer.BroadCasting
	}
	made, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(resolver(g.Namesrv)), consumer.WithGroupName(g.Group),
		consumer.WithInstance(g.Name), consumer.WithConsumerModel(model), consumer.WithConsumerOrder(g.Orderly),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	started := &client{consumer: made, failures: g.Failures}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: g.Expression}
	if g.Kind == "SQL92" {
		selector.Type = consumer.SQL92
	}
	err = made.Subscribe(g.Topic, selector, func(_ context.Context, all ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		started.lock.Lock()
		defer started.lock.Unlock()
		for _, one := range all {
			started.messages = append(started.messages, received{
				string(one.Body), one.Queue.QueueId, one.QueueOffset, one.ReconsumeTimes, one.GetProperties()})
		}
		if started.failures > 0 {
			started.failures--
			if g.Orderly {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	clients[g.Name] = started
	return true, made.Start()
}

func administer(g given, do func(admin.Admin) (interface{}, error)) (interface{}, error) {
	made, err := admin.NewAdmin(admin.WithResolver(resolver(g.Namesrv)))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	return do(made)
}

func answer(g given) (interface{}, error) {
	ctx := context.Background()
	switch g.Do {
	case "send":
		return send(g)
	case "consumer.start":
		return consume(g)
	case "consumer.received":
		found := clients[g.Name]
		found.lock.Lock()
		defer found.lock.Unlock()
		return append([]received{}, found.messages...), nil
	case "consumer.stop":
		found := clients[g.Name]
		delete(clients, g.Name)
		return true, found.consumer.Shutdown()
	case "topic.create":
		return administer(g, func(a admin.Admin) (interface{}, error) {
			return true, a.CreateTopic(ctx, admin.WithTopicCreate(g.Topic), admin.WithBrokerAddrCreate(g.Broker),
				admin.WithReadQueueNums(g.Queues), admin.WithWriteQueueNums(g.Queues))
		})
	case "topic.delete":
		return administer(g, func(a admin.Admin) (interface{}, error) {
			return true, a.DeleteTopic(ctx, admin.WithTopicDelete(g.Topic), admin.WithBrokerAddrDelete(g.Broker),
				admin.WithNameSrvAddr([]string{g.Namesrv}))
		})
	case "topic.list":
		return administer(g, func(a admin.Admin) (interface{}, error) {
			found, err := a.FetchAllTopicList(ctx)
			if err != nil {
				return nil, err
			}
			return found.TopicList, nil
		})
	}
	return nil, fmt.Errorf("no such command: %s", g.Do)
}

func main() {
	answers := os.Stdout
	os.Stdout = os.Stderr // whatever a library prints is no answer
	rlog.SetLogLevel("warn")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		g := given{Queue: -1}
		var told interface{}
		err := json.Unmarshal(lines.Bytes(), &g)
		if err == nil {
			told, err = answer(g)
		}
		said := map[string]interface{}{"is": told}
		if err != nil {
			said = map[string]interface{}{"error": err.Error()}
		}
		line, err := json.Marshal(said)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(answers, "%s\n", line)
	}
}
