import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
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

    /** Puts of messages of `bodyBytes` to `topic`: of `producers` at a time, one each, or by one in batches of 32. */
    static void put(JSONObject command, JSONObject answer) throws Exception {
        DefaultMessageStore store = opened(command);
        String topic = command.getString("topic");
        int bodyBytes = command.getIntValue("bodyBytes");
        List<Call> calls = new ArrayList<>();
        if (command.getBooleanValue("batch")) {
            MessageExtBatch batch = batch(topic, bodyBytes);
            calls.add(() -> stored(store.putMessages(batch), BATCH_MESSAGES));
        }
        while (calls.size() < command.getIntValue("producers")) {
            MessageExtBrokerInner message = fill(new MessageExtBrokerInner(), topic, bodyBytes);
            message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(TopicFilterType.SINGLE_TAG, "TagA"));
            calls.add(() -> stored(store.putMessage(message), 1));
        }
        timed(command, answer, calls);
        store.shutdown();
        store.destroy();
    }

    private static int stored(PutMessageResult result, int messages) {
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("a put was answered " + result.getPutMessageStatus());
        }
        return messages;
    }

    /** Queries for one key each, of the `keys` keys that `topic` has a message of. */
    static void query(JSONObject command, JSONObject answer) throws Exception {
        DefaultMessageStore store = opened(command);
        String topic = command.getString("topic");
        int keys = command.getIntValue("keys");
        int stride = command.getIntValue("stride");
        int[] next = {0};
        timed(command, answer, List.of(() -> {
            QueryMessageResult result = store.queryMessage(topic, "order-" + next[0], BATCH_MESSAGES, 0, Long.MAX_VALUE);
            int count = result.getMessageBufferList().size();
            if (count != 1) {
                throw new IllegalStateException("a query for order-" + next[0] + " found " + count);
            }
            next[0] = (next[0] + stride) % keys;
            result.release();
            return 1;
        }));
        store.shutdown();
        store.destroy();
    }

    /** One consumer's pulls of queue 0 of `topic`, 32 messages at a time, each copied, from end to end and again. */
    static void get(JSONObject command, JSONObject answer) throws Exception {
        DefaultMessageStore store = opened(command);
        String topic = command.getString("topic");
        long[] next = {0};
        timed(command, answer, List.of(() -> {
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
        }));
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

    /** Each call is repeated by a thread of its own. */
    private static void timed(JSONObject command, JSONObject answer, List<Call> calls) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(calls.size());
        try {
            loop(threads, command.getDoubleValue("warmSeconds"), calls);
            long began = System.nanoTime();
            long count = loop(threads, command.getDoubleValue("seconds"), calls);
            answer.put("seconds", (System.nanoTime() - began) / 1e9);
            answer.put("count", count);
        } finally {
            threads.shutdown();
        }
    }

    private static long loop(ExecutorService threads, double seconds, List<Call> calls) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        List<Callable<Long>> loops = new ArrayList<>();
        for (Call call : calls) {
            loops.add(() -> {
                long count = 0;
                while (System.nanoTime() < end) {
                    count += call.run();
                }
                return count;
            });
        }
        long count = 0;
        try {
            for (Future<Long> one : threads.invokeAll(loops)) {
                count += one.get();
            }
        } catch (ExecutionException failure) {
            throw failure.getCause() instanceof Exception ? (Exception) failure.getCause() : failure; // or an Error
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

    private static MessageExtBatch batch(String topic, int bodyBytes) {
        List<Message> units = Collections.nCopies(BATCH_MESSAGES, new Message(topic, "x".repeat(bodyBytes).getBytes()));
        MessageExtBatch batch = fill(new MessageExtBatch(), topic, 0);
        batch.setBody(MessageDecoder.encodeMessages(units));
        return batch;
    }

    private static <T extends MessageExt> T fill(T message, String topic, int bodyBytes) {
        message.setTopic(topic);
        message.setBody("x".repeat(bodyBytes).getBytes());
        message.setTags("TagA");
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 0));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        if (message instanceof MessageExtBrokerInner) {
            String properties = MessageDecoder.messageProperties2String(message.getProperties());
            ((MessageExtBrokerInner) message).setPropertiesString(properties);
        }
        return message;
    }
}
