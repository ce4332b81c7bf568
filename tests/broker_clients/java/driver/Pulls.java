import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages themselves, the old kind and the one that keeps books ("lite"). */
final class Pulls {
    private static final int BATCH_MESSAGES_MAX = 4;

    private final Map<String, DefaultLitePullConsumer> lite = new HashMap<>();

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("pull.all", this::pullAll);
        commands.put("pull.at", this::pullAt);
        commands.put("lite.start", this::liteStart);
        commands.put("lite.poll", this::litePoll);
        commands.put("lite.commit", given -> {
            lite.get(given.getString("lite")).commitSync();
            return null;
        });
        commands.put("lite.stop", given -> {
            lite.remove(given.getString("lite")).shutdown();
            return null;
        });
    }

    private interface Use {
        Object of(DefaultMQPullConsumer consumer, List<MessageQueue> queues) throws Exception;
    }

    private static Object with(JSONObject given, Use use) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(given.getString("group"), Settings.hook(given));
        Settings.apply(consumer, given);
        consumer.start();
        try {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(given.getString("topic")));
            Collections.sort(queues);
            return use.of(consumer, queues);
        } finally {
            consumer.shutdown();
        }
    }

    private static String tags(JSONObject given) {
        return given.containsKey("tags") ? given.getString("tags") : "*";
    }

    /** Pulls each queue from where the group stands to its end, stores how far it came, and tells both. */
    private Object pullAll(JSONObject given) throws Exception {
        return with(given, (consumer, queues) -> {
            List<Map<String, Object>> messages = new ArrayList<>();
            Map<String, Long> offsets = new HashMap<>();
            for (MessageQueue queue : queues) {
                long next = Math.max(consumer.fetchConsumeOffset(queue, true), 0);
                for (boolean more = true; more; ) {
                    PullResult pulled = consumer.pull(queue, tags(given), next, BATCH_MESSAGES_MAX);
                    if (pulled.getPullStatus() == PullStatus.FOUND) {
                        pulled.getMsgFoundList().forEach(message -> messages.add(Consumers.described(message)));
                    }
                    more = pulled.getPullStatus() == PullStatus.FOUND
                            || pulled.getPullStatus() == PullStatus.NO_MATCHED_MSG;
                    next = pulled.getNextBeginOffset();
                }
                consumer.updateConsumeOffset(queue, next);
                consumer.getOffsetStore().persist(queue);
                offsets.put(String.valueOf(queue.getQueueId()), next);
            }
            return Map.of("messages", messages, "offsets", offsets);
        });
    }

    /** One pull at one offset, and what the broker says of it. */
    private Object pullAt(JSONObject given) throws Exception {
        return with(given, (consumer, queues) -> {
            PullResult pulled = consumer.pull(
                    queues.get(given.getIntValue("queueId")), tags(given), given.getLongValue("offset"), BATCH_MESSAGES_MAX);
            return Map.of(
                    "status", pulled.getPullStatus().name(),
                    "next", pulled.getNextBeginOffset(),
                    "min", pulled.getMinOffset(),
                    "max", pulled.getMaxOffset());
        });
    }

    private Object liteStart(JSONObject given) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(given.getString("group"), Settings.hook(given));
        Settings.apply(consumer, given);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.subscribe(given.getString("topic"), tags(given));
        consumer.start();
        lite.put(given.getString("name"), consumer);
        return null;
    }

    private Object litePoll(JSONObject given) {
        List<Map<String, Object>> messages = new ArrayList<>();
        for (MessageExt message : lite.get(given.getString("lite")).poll(500)) {
            messages.add(Consumers.described(message));
        }
        return messages;
    }
}
