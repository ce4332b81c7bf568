import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.common.message.*; // one of these two packages has MessageExtBrokerInner
import org.apache.rocketmq.store.*;

/** RocketMQ's store as its broker runs it, without the broker: each transaction is a message. */
final class Program implements Transactions.Store {
    private static final String TOPIC = "T";
    private static final int START_MS = 5_000;

    /** Opens it with small files, so that three messages are several. */
    private static DefaultMessageStore open(Path directory, String setting) throws Exception {
        JSONObject config = new JSONObject();
        config.put("flushDiskType", setting.equals("sync") ? "SYNC_FLUSH" : "ASYNC_FLUSH");
        config.put("transientStorePoolEnable", setting.equals("pool"));
        config.put("transientStorePoolSize", 2);
        config.put("mappedFileSizeCommitLog", 4096);
        config.put("mappedFileSizeConsumeQueue", 200);
        config.put("maxHashSlotNum", 5);
        config.put("maxIndexNum", 20);
        config.put("diskMaxUsedSpaceRatio", 95);
        config.put("deleteWhen", "25");
        String root = directory.resolve("store").toString();
        DefaultMessageStore store = Settings.store(new JSONObject().fluentPut("root", root).fluentPut("config", config), false);
        if (!store.load()) {
            throw new IllegalStateException("load() is false");
        }
        start(store);
        return store;
    }

    /** Starts a store, and waits for as long as its queues lack anything. */
    private static void start(DefaultMessageStore store) throws Exception {
        AtomicReference<Exception> failure = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            try {
                store.start();
                while (store.dispatchBehindBytes() > 0) {
                    Thread.sleep(1);
                }
            } catch (Exception thrown) {
                failure.set(thrown);
            }
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(START_MS);
        if (failure.get() != null) {
            throw failure.get();
        }
        if (thread.isAlive()) {
            throw new IllegalStateException("its queues do not come to the log's end");
        }
    }

    private static void put(DefaultMessageStore store, String topic, byte[] body) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topic);
        message.setBody(body);
        message.setKeys("k");
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 40_000));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        PutMessageStatus status = store.putMessage(message).getPutMessageStatus();
        if (status != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("a put is answered " + status);
        }
    }

    public void make(String setting) throws Exception {
        DefaultMessageStore store = open(Path.of(""), setting);
        put(store, "Before", new byte[0]);
        store.shutdown();
    }

    public void write(String setting) throws Exception {
        DefaultMessageStore store = open(Path.of(""), setting);
        for (int transaction = 1; transaction <= Transactions.COUNT; transaction++) {
            put(store, TOPIC, Transactions.value(transaction));
            Transactions.promise(transaction);
        }
        Thread.sleep(200); // for its queues, its index, flushes and commits
    }

    public int[] find(Path directory) throws Exception {
        DefaultMessageStore store = open(directory, "sync");
        try {
            int[] found = new int[Transactions.COUNT];
            long end = store.getMaxOffsetInQueue(TOPIC, 0);
            for (long at = store.getMinOffsetInQueue(TOPIC, 0); at < end; at++) {
                found[Transactions.transaction(bodyAt(store, at)) - 1] += Transactions.ROWS;
            }
            put(store, TOPIC, new byte[0]);
            return found;
        } finally {
            Thread end = new Thread(() -> {
                store.shutdown();
                store.destroy();
            });
            end.setDaemon(true);
            end.start();
        }
    }

    /** Returns the body of the message that a pull of one message gives. */
    private static byte[] bodyAt(DefaultMessageStore store, long queueOffset) throws Transactions.Wrong {
        GetMessageResult result = store.getMessage("group", TOPIC, 0, queueOffset, 1, null);
        try {
            if (result.getMessageMapedList().isEmpty()) {
                throw new Transactions.Wrong("a pull of queue offset " + queueOffset + " is answered " + result.getStatus());
            }
            ByteBuffer record = result.getMessageMapedList().get(0).getByteBuffer();
            MessageExt message = record.hasRemaining() ? MessageDecoder.decode(record.slice()) : null;
            if (message == null) {
                throw new Transactions.Wrong("a pull of queue offset " + queueOffset + " gives what is no message");
            }
            return message.getBody();
        } finally {
            result.release();
        }
    }

    public String version() {
        return Transactions.versionOf("RocketMQ", DefaultMessageStore.class);
    }

    public static void main(String[] arguments) {
        Transactions.main(new Program(), arguments);
    }
}
