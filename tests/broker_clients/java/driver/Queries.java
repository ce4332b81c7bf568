import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Questions about messages and queues, which any producer may ask. */
final class Queries {
    private final Producers producers;

    Queries(Producers producers) {
        this.producers = producers;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("view", given -> Consumers.described(
                producers.get(given).viewMessage(given.getString("topic"), given.getString("msgId"))));
        commands.put("query", this::query);
        commands.put("offsets", this::offsets);
    }

    private Object query(JSONObject given) throws Exception {
        QueryResult found = producers.get(given).queryMessage(
                given.getString("topic"), given.getString("key"), given.getIntValue("max"), 0, Long.MAX_VALUE);
        List<Map<String, Object>> messages = new ArrayList<>();
        for (MessageExt message : found.getMessageList()) {
            messages.add(Consumers.described(message));
        }
        return messages;
    }

    private Object offsets(JSONObject given) throws Exception {
        DefaultMQProducer producer = producers.get(given);
        MessageQueue queue = Producers.queues(producer, given.getString("topic")).get(given.getIntValue("queueId"));
        return Map.of(
                "min", producer.minOffset(queue),
                "max", producer.maxOffset(queue),
                "atTime", producer.searchOffset(queue, given.getLongValue("timestamp")),
                "earliestMs", producer.earliestMsgStoreTime(queue));
    }
}
