import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.message.*; // one of these two packages has MessageExtBrokerInner
import org.apache.rocketmq.store.*;

/**
 * How fast the real store is at what is measured of ours.
 *
 * Each command: root and config; of loops also `seconds` that count, and `warmSeconds` before that.
 */
final class Bench {
    private static final int BATCH_MESSAGES = 32;

    private Bench() { }

    /** One producer's puts of one message of `bodyBytes` to `topic`. */
    static void put(JSONObject command, JSONObject answer) throws Exception {
        DefaultMessageStore store = opened(command);
        MessageExtBrokerInner message = message(command.getString("topic"), command.getIntValue("bodyBytes"));
        timed(command, answer, () -> {
            PutMessageStatus status = store.putMessage(message).getPutMessageStatus();
            if (status != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException("a put was answered " + status);
            }
            return 1;
        });
        store.shutdown();
        store.destroy();
    }

    /** One consumer's pulls of queue 0 of `topic`, 32 messages at a time, each copied, from end to end and again. */
    static void get(JSONObject command, JSONObject answer) throws Exception {
        DefaultMessageStore store = opened(command);
        String topic = command.getString("topic");
        long[] next = {0};
        timed(command, answer, () -> {
            GetMessageResult result = store.getMessage("bench", topic, 0, next[0], BATCH_MESSAGES, null);
            if (result.getStatus() == GetMessageStatus.OFFSET_OVERFLOW_ONE) {
                result = store.getMessage("bench", topic, 0, 0, BATCH_MESSAGES, null);
            }
            int count = result.getMessageCount();
            if (count != BATCH_MESSAGES) {
                throw new IllegalStateException("a pull was answered " + result.getStatus() + ", " + count);
            }
            ByteBuffer copy = ByteBuffer.allocate(result.getBufferTotalSize());
            result.getMessageBufferList().forEach(copy::put);
            next[0] = result.getNextBeginOffset();
            result.release();
            return count;
        });
        store.shutdown();
        store.destroy();
    }

    /** One load, which is a recovery where there is an `abort`. */
    static void load(JSONObject command, JSONObject answer) throws Exception {
        DefaultMessageStore store = Settings.store(command, false);
        long began = System.nanoTime();
        boolean loaded = store.load();
        answer.put("seconds", (System.nanoTime() - began) / 1e9);
        answer.put("load", loaded);
        answer.put("maxPhyOffset", store.getMaxPhyOffset());
        store.destroy();
    }

    private interface Call {
        int run() throws Exception;
    }

    private static void timed(JSONObject command, JSONObject answer, Call call) throws Exception {
        loop(command.getDoubleValue("warmSeconds"), call);
        long began = System.nanoTime();
        long count = loop(command.getDoubleValue("seconds"), call);
        answer.put("seconds", (System.nanoTime() - began) / 1e9);
        answer.put("count", count);
    }

    private static long loop(double seconds, Call call) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long count = 0;
        while (System.nanoTime() < end) {
            count += call.run();
        }
        return count;
    }

    private static DefaultMessageStore opened(JSONObject command) throws Exception {
        DefaultMessageStore store = Settings.store(command, false);
        if (!store.load()) {
            throw new IllegalStateException("load() is false");
        }
        store.start();
        return store;
    }

    private static MessageExtBrokerInner message(String topic, int bodyBytes) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topic);
        message.setBody("x".repeat(bodyBytes).getBytes());
        message.setTags("TagA");
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, "TagA"));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 0));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        return message;
    }
}
