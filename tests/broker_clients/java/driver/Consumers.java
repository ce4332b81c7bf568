import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers. A message with the property "later": N is put off N times before it is consumed. */
final class Consumers {
    private static final int DELAY_LEVEL_1_S = 1;

    private final Map<String, DefaultMQPushConsumer> running = new HashMap<>();
    private final Map<String, List<Map<String, Object>>> received = new HashMap<>();
    private final Map<String, DefaultMQProducer> answering = new HashMap<>();

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("consumer.start", this::start);
        commands.put("consumer.stop", this::stop);
        commands.put("consumer.received", this::receivedFrom);
        commands.put("consumer.queues", this::queues);
    }

    private Object start(JSONObject given) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
                given.getString("group"), Settings.hook(given), new AllocateMessageQueueAveragely());
        Settings.apply(consumer, given);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(1000);
        if (given.getBooleanValue("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (given.containsKey("maxReconsumeTimes")) {
            consumer.setMaxReconsumeTimes(given.getIntValue("maxReconsumeTimes"));
        }
        if (given.getBooleanValue("pop")) {
            Driver.set(consumer, "setClientRebalance", boolean.class, false);
        }
        String topic = given.getString("topic");
        if (given.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(given.getString("sql")));
        } else {
            consumer.subscribe(topic, given.containsKey("tags") ? given.getString("tags") : "*");
        }
        List<Map<String, Object>> seen = Collections.synchronizedList(new ArrayList<>());
        if (given.getBooleanValue("orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(100);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                    noted(seen, messages)
                            ? ConsumeOrderlyStatus.SUCCESS
                            : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                    concurrently(seen, messages, context));
        }
        if (given.getBooleanValue("replies")) {
            consumer.registerMessageListener(replying(seen, given));
        }
        try {
            consumer.start();
        } catch (MQClientException refused) {
            consumer.shutdown();
            throw refused;
        }
        running.put(given.getString("name"), consumer);
        received.put(given.getString("name"), seen);
        return null;
    }

    private static ConsumeConcurrentlyStatus concurrently(
            List<Map<String, Object>> seen, List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        context.setDelayLevelWhenNextConsume(DELAY_LEVEL_1_S);
        return noted(seen, messages)
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    /** Answers each message as a request. */
    private MessageListenerConcurrently replying(List<Map<String, Object>> seen, JSONObject given) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("repliers", Settings.hook(given));
        Settings.apply(producer, given);
        producer.start();
        answering.put(given.getString("name"), producer);
        return (messages, context) -> {
            noted(seen, messages);
            try {
                for (MessageExt message : messages) {
                    String body = "reply to " + new String(message.getBody(), StandardCharsets.UTF_8);
                    producer.send(MessageUtil.createReplyMessage(message, body.getBytes(StandardCharsets.UTF_8)), 3000);
                }
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    /** Notes what came, and returns whether all of it is to be consumed now. */
    private static boolean noted(List<Map<String, Object>> seen, List<MessageExt> messages) {
        boolean now = true;
        for (MessageExt message : messages) {
            seen.add(described(message));
            String later = message.getUserProperty("later");
            now &= later == null || message.getReconsumeTimes() >= Integer.parseInt(later);
        }
        return now;
    }

    static Map<String, Object> described(MessageExt message) {
        Map<String, Object> is = new HashMap<>();
        is.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        is.put("topic", message.getTopic());
        is.put("queueId", message.getQueueId());
        is.put("queueOffset", message.getQueueOffset());
        is.put("commitLogOffset", message.getCommitLogOffset());
        is.put("reconsumeTimes", message.getReconsumeTimes());
        is.put("msgId", message.getMsgId());
        is.put("bornTimestamp", message.getBornTimestamp());
        is.put("storeTimestamp", message.getStoreTimestamp());
        is.put("sysFlag", message.getSysFlag());
        is.put("properties", message.getProperties());
        is.put("receivedMs", System.currentTimeMillis());
        return is;
    }

    private Object stop(JSONObject given) {
        running.remove(given.getString("consumer")).shutdown();
        DefaultMQProducer replier = answering.remove(given.getString("consumer"));
        if (replier != null) {
            replier.shutdown();
        }
        return received.remove(given.getString("consumer"));
    }

    private Object receivedFrom(JSONObject given) {
        List<Map<String, Object>> seen = received.get(given.getString("consumer"));
        synchronized (seen) {
            return new ArrayList<>(seen.subList(given.getIntValue("from"), seen.size()));
        }
    }

    /** Which queues of its topic (not of its retry topic) a consumer has now. */
    private Object queues(JSONObject given) {
        List<Integer> queues = new ArrayList<>();
        running.get(given.getString("consumer")).getDefaultMQPushConsumerImpl().getRebalanceImpl()
                .getProcessQueueTable().keySet().forEach(queue -> {
                    if (queue.getTopic().equals(given.getString("topic"))) {
                        queues.add(queue.getQueueId());
                    }
                });
        Collections.sort(queues);
        return queues;
    }
}
