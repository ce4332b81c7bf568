import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Producers, and every way in which they send. */
final class Producers {
    private final Map<String, DefaultMQProducer> running = new HashMap<>();
    private final List<String> checked = Collections.synchronizedList(new ArrayList<>());

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("producer.start", this::start);
        commands.put("producer.stop", this::stop);
        commands.put("send", given -> described(get(given).send(message(given))));
        commands.put("send.async", this::sendAsync);
        commands.put("send.oneway", this::sendOneway);
        commands.put("send.batch", this::sendBatch);
        commands.put("send.ordered", this::sendOrdered);
        commands.put("send.transaction", this::sendTransaction);
        commands.put("transaction.checked", given -> new ArrayList<>(checked));
        commands.put("request", this::request);
    }

    DefaultMQProducer get(JSONObject given) {
        DefaultMQProducer producer = running.get(given.getString("producer"));
        if (producer == null) {
            throw new IllegalArgumentException("no such producer: " + given);
        }
        return producer;
    }

    private Object start(JSONObject given) throws Exception {
        String group = given.getString("group");
        DefaultMQProducer producer;
        if (given.getBooleanValue("transactional")) {
            TransactionMQProducer transactional = new TransactionMQProducer(group, Settings.hook(given));
            transactional.setTransactionListener(new Decided());
            producer = transactional;
        } else {
            producer = new DefaultMQProducer(group, Settings.hook(given));
        }
        Settings.apply(producer, given);
        producer.setSendMsgTimeout(given.getIntValue("timeoutMs") > 0 ? given.getIntValue("timeoutMs") : 3000);
        if (given.containsKey("retries")) {
            producer.setRetryTimesWhenSendFailed(given.getIntValue("retries"));
        }
        if (given.containsKey("compressOverBytes")) {
            producer.setCompressMsgBodyOverHowmuch(given.getIntValue("compressOverBytes"));
        }
        if (given.containsKey("maxMessageBytes")) {
            producer.setMaxMessageSize(given.getIntValue("maxMessageBytes"));
        }
        producer.start();
        running.put(given.getString("name"), producer);
        return null;
    }

    private Object stop(JSONObject given) {
        get(given).shutdown();
        running.remove(given.getString("producer"));
        return null;
    }

    static Message message(JSONObject given) throws Exception {
        byte[] body = given.getString("body").getBytes(StandardCharsets.UTF_8);
        Message message = new Message(given.getString("topic"), given.getString("tags"), given.getString("keys"), body);
        if (given.containsKey("delayLevel")) {
            message.setDelayTimeLevel(given.getIntValue("delayLevel"));
        }
        if (given.containsKey("delayMs")) {
            Driver.set(message, "setDelayTimeMs", long.class, given.getLongValue("delayMs"));
        }
        JSONObject properties = given.getJSONObject("properties");
        if (properties != null) {
            properties.keySet().stream().sorted().forEach(
                    key -> message.putUserProperty(key, properties.getString(key)));
        }
        return message;
    }

    static Map<String, Object> described(SendResult result) {
        Map<String, Object> is = new HashMap<>();
        is.put("status", result.getSendStatus().name());
        is.put("msgId", result.getMsgId());
        is.put("offsetMsgId", result.getOffsetMsgId());
        is.put("queueId", result.getMessageQueue().getQueueId());
        is.put("brokerName", result.getMessageQueue().getBrokerName());
        is.put("queueOffset", result.getQueueOffset());
        is.put("transactionId", result.getTransactionId());
        if (result instanceof TransactionSendResult) {
            is.put("decided", ((TransactionSendResult) result).getLocalTransactionState().name());
        }
        return is;
    }

    private Object sendAsync(JSONObject given) throws Exception {
        CompletableFuture<SendResult> answered = new CompletableFuture<>();
        get(given).send(message(given), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                answered.completeExceptionally(error);
            }
        });
        return described(answered.get(10, TimeUnit.SECONDS));
    }

    private Object sendOneway(JSONObject given) throws Exception {
        get(given).sendOneway(message(given));
        return null;
    }

    private Object sendBatch(JSONObject given) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (Object one : given.getJSONArray("messages")) {
            messages.add(message((JSONObject) one));
        }
        return described(get(given).send(messages));
    }

    /** The queue is chosen by what the messages have in common, as for orders of one customer. */
    private Object sendOrdered(JSONObject given) throws Exception {
        return described(get(given).send(
                message(given),
                (queues, message, key) -> queues.get((int) key % queues.size()),
                given.getIntValue("key")));
    }

    private Object sendTransaction(JSONObject given) throws Exception {
        return described(get(given).sendMessageInTransaction(message(given), null));
    }

    /** A message that is answered by a message; answers the body of the latter. */
    private Object request(JSONObject given) throws Exception {
        Message reply = get(given).request(message(given), given.getIntValue("timeoutMs"));
        return new String(reply.getBody(), StandardCharsets.UTF_8);
    }

    static List<MessageQueue> queues(DefaultMQProducer producer, String topic) throws Exception {
        List<MessageQueue> queues = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
        Collections.sort(queues);
        return queues;
    }

    /** Does as the message says: its property "then" decides at once, "whenChecked" when the broker asks. */
    private final class Decided implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object unused) {
            return LocalTransactionState.valueOf(message.getUserProperty("then"));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            checked.add(new String(message.getBody(), StandardCharsets.UTF_8));
            return LocalTransactionState.valueOf(message.getUserProperty("whenChecked"));
        }
    }
}
