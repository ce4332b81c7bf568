package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const delayLevel1s = 1

type pushConsumer struct {
	consumer rocketmq.PushConsumer
	lock     sync.Mutex
	messages []map[string]interface{}
	attempts map[string]int
}

var consumers = map[string]*pushConsumer{}

func nowMs() int64 {
	return time.Now().UnixNano() / int64(time.Millisecond)
}

func startConsumer(g given) (interface{}, error) {
	model := consumer.Clustering
	if g.Broadcasting {
		model = consumer.BroadCasting
	}
	options := []consumer.Option{
		consumer.WithNsResolver(resolver(g.Namesrv)), consumer.WithGroupName(g.Group), consumer.WithInstance(g.Name),
		consumer.WithConsumerModel(model), consumer.WithConsumerOrder(g.Orderly),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if g.MaxReconsumeTimes != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(int32(*g.MaxReconsumeTimes)))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	started := &pushConsumer{consumer: made, attempts: map[string]int{}}
	if err = made.Subscribe(g.Topic, selector(g), started.consume(g.Orderly)); err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	consumers[g.Name] = started
	return true, nil
}

func selector(g given) consumer.MessageSelector {
	if g.SQL != "" {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: g.SQL}
	}
	if g.Tags != "" {
		return consumer.MessageSelector{Type: consumer.TAG, Expression: g.Tags}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
}

// consume records messages. One with the property "later": N is consumed only at its attempt N + 1.
func (c *pushConsumer) consume(orderly bool) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	return func(ctx context.Context, all ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		c.lock.Lock()
		defer c.lock.Unlock()
		failed := false
		for _, one := range all {
			c.messages = append(c.messages, described(one, one.Queue.QueueId))
			body := string(one.Body)
			c.attempts[body]++
			if later, err := strconv.Atoi(one.GetProperty("later")); err == nil && c.attempts[body] <= later {
				failed = true
			}
		}
		if !failed {
			return consumer.ConsumeSuccess, nil
		}
		if orderly {
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		if concurrently, found := primitive.GetConcurrentlyCtx(ctx); found {
			concurrently.DelayLevelWhenNextConsume = delayLevel1s
		}
		return consumer.ConsumeRetryLater, nil
	}
}

func receivedBy(g given) (interface{}, error) {
	found := consumers[g.Consumer]
	found.lock.Lock()
	defer found.lock.Unlock()
	return append([]map[string]interface{}{}, found.messages...), nil
}

func stopConsumer(g given) (interface{}, error) {
	found := consumers[g.Consumer]
	delete(consumers, g.Consumer)
	err := found.consumer.Shutdown()
	found.lock.Lock()
	defer found.lock.Unlock()
	return append([]map[string]interface{}{}, found.messages...), err
}
