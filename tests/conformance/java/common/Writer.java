import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.message.*; // one of these two packages has MessageExtBrokerInner
import org.apache.rocketmq.store.*;

/**
 * Messages put into the real store by several producers at a time, each answer reported as it comes.
 *
 * Command: root, config, producers (for each, what it puts in turn), stop (whether to shut down in the end). A put has
 * name, topic, queueId, body (text), properties, flag, sysFlag, prepared, delayed by its DELAY; `batch`: units with body
 * and properties; `pauseMs` comes before it. An answer: {"name", "status", "offset", "bytes", "queueOffset", "msgId"}.
 */
final class Writer {
    private final JSONObject command;
    private final Consumer<JSONObject> told;

    Writer(JSONObject command, Consumer<JSONObject> told) {
        this.command = command;
        this.told = told;
    }

    void run() throws Exception {
        DefaultMessageStore store = Settings.store(command, true);
        if (!store.load()) {
            throw new IllegalStateException("load() is false");
        }
        store.start();
        List<Thread> producers = new ArrayList<>();
        JSONArray asked = command.getJSONArray("producers");
        for (int number = 0; number < asked.size(); number++) {
            JSONArray puts = asked.getJSONArray(number);
            Thread producer = new Thread(() -> putAll(store, puts));
            producers.add(producer);
            producer.start();
        }
        for (Thread producer : producers) {
            producer.join();
        }
        if (command.getBooleanValue("stop")) {
            store.shutdown();
        }
    }

    private void putAll(DefaultMessageStore store, JSONArray puts) {
        try {
            for (int number = 0; number < puts.size(); number++) {
                JSONObject put = puts.getJSONObject(number);
                Thread.sleep(put.getLongValue("pauseMs"));
                PutMessageResult result = put.containsKey("batch")
                    ? store.putMessages(batch(put)) : store.putMessage(single(put));
                told.accept(answer(put, result));
            }
        } catch (Exception thrown) {
            told.accept(new JSONObject(true).fluentPut("exception", thrown.toString()));
        }
    }

    private static JSONObject answer(JSONObject put, PutMessageResult result) {
        JSONObject answer = new JSONObject(true);
        answer.put("name", put.getString("name"));
        answer.put("status", result.getPutMessageStatus().name());
        AppendMessageResult append = result.getAppendMessageResult();
        if (append != null && append.getMsgId() != null) {
            answer.put("offset", append.getWroteOffset());
            answer.put("bytes", append.getWroteBytes());
            answer.put("queueOffset", append.getLogicsOffset());
            answer.put("msgId", append.getMsgId());
        }
        return answer;
    }

    private static MessageExtBrokerInner single(JSONObject put) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        fill(message, put);
        message.setBody(put.getString("body").getBytes("UTF-8"));
        for (Map.Entry<String, Object> property : put.getJSONObject("properties").entrySet()) {
            MessageAccessor.putProperty(message, property.getKey(), property.getValue().toString());
        }
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, message.getTags()));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private static MessageExtBatch batch(JSONObject put) throws Exception {
        MessageExtBatch message = new MessageExtBatch();
        fill(message, put);
        List<Message> units = new ArrayList<>();
        JSONArray asked = put.getJSONArray("batch");
        for (int number = 0; number < asked.size(); number++) {
            JSONObject one = asked.getJSONObject(number);
            Message unit = new Message(message.getTopic(), one.getString("body").getBytes("UTF-8"));
            for (Map.Entry<String, Object> property : one.getJSONObject("properties").entrySet()) {
                MessageAccessor.putProperty(unit, property.getKey(), property.getValue().toString());
            }
            units.add(unit);
        }
        message.setBody(MessageDecoder.encodeMessages(units));
        return message;
    }

    private static void fill(MessageExt message, JSONObject put) throws Exception {
        message.setTopic(put.getString("topic"));
        message.setQueueId(put.getIntValue("queueId"));
        message.setFlag(put.getIntValue("flag"));
        message.setSysFlag(put.getIntValue("sysFlag"));
        message.setPreparedTransactionOffset(put.getLongValue("prepared"));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress(InetAddress.getByName(put.getString("bornHost")), 40_000));
        message.setStoreHost(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 10_911));
    }
}
