package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const patience = 30 * time.Second

type anyProducer struct {
	plain         rocketmq.Producer
	transactional rocketmq.TransactionProducer
}

var producers = map[string]anyProducer{}

var decisions = map[string]primitive.LocalTransactionState{
	"COMMIT_MESSAGE":   primitive.CommitMessageState,
	"ROLLBACK_MESSAGE": primitive.RollbackMessageState,
	"UNKNOW":           primitive.UnknowState,
}

// decided does as the message says: its property "then" decides at once, "whenChecked" when the broker asks.
type decided struct {
	lock    sync.Mutex
	checked []string
}

var transactions decided

func (d *decided) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return decisions[message.GetProperty("then")]
}

func (d *decided) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.checked = append(d.checked, string(message.Body))
	return decisions[message.GetProperty("whenChecked")]
}

// chosen sends to the queue that a message names, if it does.
type chosen struct{ otherwise producer.QueueSelector }

func (c chosen) Select(message *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if message.Queue != nil {
		for _, queue := range queues {
			if queue.QueueId == message.Queue.QueueId%len(queues) {
				return queue
			}
		}
	}
	return c.otherwise.Select(message, queues, last)
}

func startProducer(g given) (interface{}, error) {
	options := []producer.Option{
		producer.WithNsResolver(resolver(g.Namesrv)), producer.WithGroupName(g.Group), producer.WithInstanceName(g.Name),
		producer.WithQueueSelector(chosen{producer.NewRoundRobinQueueSelector()}), producer.WithVIPChannel(g.VIP),
	}
	if g.CompressOverBytes > 0 {
		options = append(options, producer.WithCompressMsgBodyOverHowmuch(g.CompressOverBytes))
	}
	if g.TimeoutMs > 0 {
		options = append(options, producer.WithSendMsgTimeout(time.Duration(g.TimeoutMs)*time.Millisecond))
	}
	if g.Retries != nil {
		options = append(options, producer.WithRetry(*g.Retries))
	}
	if g.Transactional {
		made, err := rocketmq.NewTransactionProducer(&transactions, options...)
		if err != nil {
			return nil, err
		}
		producers[g.Name] = anyProducer{transactional: made}
		return true, made.Start()
	}
	made, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	producers[g.Name] = anyProducer{plain: made}
	return true, made.Start()
}

func stopProducer(g given) (interface{}, error) {
	found := producers[g.Producer]
	delete(producers, g.Producer)
	if found.transactional != nil {
		return true, found.transactional.Shutdown()
	}
	return true, found.plain.Shutdown()
}

func message(g given) *primitive.Message {
	made := primitive.NewMessage(g.Topic, []byte(g.Body))
	if g.Properties != nil {
		made.WithProperties(g.Properties) // first: it replaces all properties
	}
	if g.Tags != "" {
		made.WithTag(g.Tags)
	}
	if g.Keys != "" {
		made.WithKeys(strings.Fields(g.Keys))
	}
	if g.DelayLevel > 0 {
		made.WithDelayTimeLevel(g.DelayLevel)
	}
	if g.Key != nil {
		made.Queue = &primitive.MessageQueue{QueueId: *g.Key}
	}
	return made
}

var statuses = map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}

func sent(result *primitive.SendResult) map[string]interface{} {
	return map[string]interface{}{
		"status": statuses[result.Status], "queueId": result.MessageQueue.QueueId, "queueOffset": result.QueueOffset,
		"msgId": result.MsgID, "offsetMsgId": result.OffsetMsgID,
	}
}

func send(g given) (interface{}, error) {
	return sendAll(g, message(g))
}

func sendBatch(g given) (interface{}, error) {
	var all []*primitive.Message
	for _, one := range g.Messages {
		all = append(all, message(one))
	}
	return sendAll(g, all...)
}

func sendAll(g given, messages ...*primitive.Message) (interface{}, error) {
	result, err := producers[g.Producer].plain.SendSync(context.Background(), messages...)
	if err != nil {
		return nil, err
	}
	return sent(result), nil
}

func sendAsync(g given) (interface{}, error) {
	type outcome struct {
		result *primitive.SendResult
		err    error
	}
	answers := make(chan outcome, 1)
	err := producers[g.Producer].plain.SendAsync(context.Background(),
		func(_ context.Context, result *primitive.SendResult, err error) { answers <- outcome{result, err} }, message(g))
	if err != nil {
		return nil, err
	}
	select {
	case told := <-answers:
		if told.err != nil {
			return nil, told.err
		}
		return sent(told.result), nil
	case <-time.After(patience):
		return nil, errors.New("an asynchronous send was not answered")
	}
}

func sendOneway(g given) (interface{}, error) {
	return true, producers[g.Producer].plain.SendOneWay(context.Background(), message(g))
}

func sendTransaction(g given) (interface{}, error) {
	result, err := producers[g.Producer].transactional.SendMessageInTransaction(context.Background(), message(g))
	if err != nil {
		return nil, err
	}
	told := sent(result.SendResult)
	for name, state := range decisions {
		if state == result.State {
			told["decided"] = name
		}
	}
	return told, nil
}

func checkedTransactions(given) (interface{}, error) {
	transactions.lock.Lock()
	defer transactions.lock.Unlock()
	return append([]string{}, transactions.checked...), nil
}
