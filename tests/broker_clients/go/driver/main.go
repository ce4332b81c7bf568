// Drives RocketMQ's client for Go: each line of standard input is a command, {"do": NAME, ...}, and is answered by a line
// on standard output, "> " and {"is": ...} or {"error": NAME, "message": ...}. The error "NotOffered" means that the client
// has no such function, or that this driver does not use it.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// given has the options of all commands. Any other option is not offered.
type given struct {
	Do, Namesrv, Name, Group, Topic           string
	Producer, Consumer, Lite                  string
	Body, Tags, Keys, SQL                     string
	Properties                                map[string]string
	Messages                                  []given
	Key, QueueId, Retries, MaxReconsumeTimes  *int
	Offset                                    int64
	DelayLevel, TimeoutMs, CompressOverBytes  int
	Transactional, VIP, Orderly, Broadcasting bool
	Stored                                    bool // pull consumers always read and store the offset of their group
}

var errNotOffered = errors.New("NotOffered")

var commands = map[string]func(given) (interface{}, error){
	"producer.start":      startProducer,
	"producer.stop":       stopProducer,
	"send":                send,
	"send.async":          sendAsync,
	"send.oneway":         sendOneway,
	"send.batch":          sendBatch,
	"send.ordered":        send,
	"send.transaction":    sendTransaction,
	"transaction.checked": checkedTransactions,
	"consumer.start":      startConsumer,
	"consumer.received":   receivedBy,
	"consumer.stop":       stopConsumer,
	"pull.all":            pullAll,
	"pull.at":             pullAt,
	"lite.start":          startLite,
	"lite.poll":           pollLite,
	"lite.commit":         commitLite,
	"lite.stop":           stopLite,
}

func resolver(namesrv string) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{namesrv})
}

func described(message *primitive.MessageExt, queue int) map[string]interface{} {
	properties := message.GetProperties()
	if keys, found := properties[primitive.PropertyKeys]; found {
		properties[primitive.PropertyKeys] = strings.TrimSpace(keys) // the client ends each key with a space
	}
	return map[string]interface{}{
		"body": string(message.Body), "topic": message.Topic, "queueId": queue, "queueOffset": message.QueueOffset,
		"reconsumeTimes": message.ReconsumeTimes, "msgId": message.MsgId, "sysFlag": message.SysFlag,
		"properties": properties, "receivedMs": nowMs(),
	}
}

func answer(line []byte) (interface{}, error) {
	g := given{}
	options := json.NewDecoder(bytes.NewReader(line))
	options.DisallowUnknownFields()
	if err := options.Decode(&g); err != nil {
		return nil, fmt.Errorf("%w: %v", errNotOffered, err)
	}
	command, found := commands[g.Do]
	if !found {
		return nil, fmt.Errorf("%w: %s", errNotOffered, g.Do)
	}
	return command(g)
}

func main() {
	answers := os.Stdout
	os.Stdout = os.Stderr // whatever a library prints is no answer
	rlog.SetLogLevel("warn")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		is, err := answer(lines.Bytes())
		told := map[string]interface{}{"is": is}
		if errors.Is(err, errNotOffered) {
			told = map[string]interface{}{"error": "NotOffered", "message": err.Error()}
		} else if err != nil {
			told = map[string]interface{}{"error": fmt.Sprintf("%T", err), "message": err.Error()}
		}
		line, err := json.Marshal(told)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(answers, "> %s\n", line)
	}
}
