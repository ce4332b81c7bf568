package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	batchMessagesMax = 4
	pollWait         = 500 * time.Millisecond
)

// puller is the client's pull consumer; its package has no name for the type.
type puller interface {
	Start() error
	Shutdown() error
	Subscribe(topic string, selector consumer.MessageSelector) error
	PullFrom(ctx context.Context, queue *primitive.MessageQueue, offset int64, numbers int) (*primitive.PullResult, error)
	Poll(ctx context.Context, timeout time.Duration) (*consumer.ConsumeRequest, error)
	ACK(ctx context.Context, request *consumer.ConsumeRequest, result consumer.ConsumeResult)
	UpdateOffset(queue *primitive.MessageQueue, offset int64) error
	PersistOffset(ctx context.Context, topic string) error
	CurrentOffset(queue *primitive.MessageQueue) (int64, error)
}

type litePuller struct {
	puller
	topic string
}

var lites = map[string]litePuller{}

var pullStatuses = map[primitive.PullStatus]string{
	primitive.PullFound: "FOUND", primitive.PullNoNewMsg: "NO_NEW_MSG", primitive.PullNoMsgMatched: "NO_MATCHED_MSG",
	primitive.PullOffsetIllegal: "OFFSET_ILLEGAL",
}

func startPuller(g given) (puller, error) {
	made, err := consumer.NewPullConsumer(consumer.WithNsResolver(resolver(g.Namesrv)), consumer.WithGroupName(g.Group),
		consumer.WithInstance(g.Name), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(g.Topic, selector(g)); err != nil {
		return nil, err
	}
	return made, made.Start()
}

func queues(g given) ([]*primitive.MessageQueue, error) {
	made, err := admin.NewAdmin(admin.WithResolver(resolver(g.Namesrv)))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	return made.FetchPublishMessageQueues(context.Background(), g.Topic)
}

// pullAll pulls each queue from the group's offset to its end, stores the new offset, and returns both.
func pullAll(g given) (interface{}, error) {
	made, err := startPuller(g)
	if err != nil {
		return nil, err
	}
	defer made.Shutdown()
	all, err := queues(g)
	if err != nil {
		return nil, err
	}
	read := make([]pulledQueue, len(all))
	var running sync.WaitGroup
	for each, queue := range all { // at once: the broker holds a pull at the end of a queue for 20 s
		running.Add(1)
		go func(each int, queue *primitive.MessageQueue) {
			defer running.Done()
			read[each] = pullQueue(made, queue)
		}(each, queue)
	}
	running.Wait()
	messages, offsets := []map[string]interface{}{}, map[string]int64{}
	for each, queue := range all {
		if read[each].err != nil {
			return nil, read[each].err
		}
		messages = append(messages, read[each].messages...)
		offsets[strconv.Itoa(queue.QueueId)] = read[each].next
		if err = made.UpdateOffset(queue, read[each].next); err != nil {
			return nil, err
		}
	}
	return map[string]interface{}{"messages": messages, "offsets": offsets}, made.PersistOffset(context.Background(), g.Topic)
}

type pulledQueue struct {
	messages []map[string]interface{}
	next     int64
	err      error
}

func pullQueue(made puller, queue *primitive.MessageQueue) pulledQueue {
	read := pulledQueue{}
	read.next, read.err = made.CurrentOffset(queue)
	read.next = max(read.next, 0)
	for more := true; more && read.err == nil; {
		var pulled *primitive.PullResult
		pulled, read.err = made.PullFrom(context.Background(), queue, read.next, batchMessagesMax)
		if read.err == nil {
			for _, one := range pulled.GetMessageExts() {
				read.messages = append(read.messages, described(one, queue.QueueId))
			}
			more = pulled.Status == primitive.PullFound || pulled.Status == primitive.PullNoMsgMatched
			read.next = pulled.NextBeginOffset
		}
	}
	return read
}

// pullAt pulls once, and returns the broker's answer.
func pullAt(g given) (interface{}, error) {
	made, err := startPuller(g)
	if err != nil {
		return nil, err
	}
	defer made.Shutdown()
	all, err := queues(g)
	if err != nil {
		return nil, err
	}
	for _, queue := range all {
		if queue.QueueId == *g.QueueId {
			pulled, err := made.PullFrom(context.Background(), queue, g.Offset, batchMessagesMax)
			if err != nil {
				return nil, err
			}
			return map[string]interface{}{
				"status": pullStatuses[pulled.Status], "next": pulled.NextBeginOffset,
				"min": pulled.MinOffset, "max": pulled.MaxOffset,
			}, nil
		}
	}
	return nil, context.Canceled
}

func startLite(g given) (interface{}, error) {
	made, err := startPuller(g)
	if err != nil {
		return nil, err
	}
	lites[g.Name] = litePuller{made, g.Topic}
	return true, nil
}

func pollLite(g given) (interface{}, error) {
	messages := []map[string]interface{}{}
	polled, err := lites[g.Lite].Poll(context.Background(), pollWait)
	if consumer.IsNoNewMsgError(err) {
		return messages, nil
	}
	if err != nil {
		return nil, err
	}
	for _, one := range polled.GetMsgList() {
		messages = append(messages, described(one, polled.GetMQ().QueueId))
	}
	lites[g.Lite].ACK(context.Background(), polled, consumer.ConsumeSuccess)
	return messages, nil
}

func commitLite(g given) (interface{}, error) {
	return true, lites[g.Lite].PersistOffset(context.Background(), lites[g.Lite].topic)
}

func stopLite(g given) (interface{}, error) {
	found := lites[g.Lite]
	delete(lites, g.Lite)
	return true, found.Shutdown()
}
