import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Opens a store directory with the public RocketMQ store, asks it one question, and prints the promised and the found answer.
 *
 * Arguments: the directory, which is changed, and a finding.properties with its settings, the question (`ask`), what
 * had been promised, and what was found when the page was written. Exit code 0: found again, 1: not.
 */
public final class Reproduce {
    public static void main(String[] args) throws Exception {
        Properties finding = new Properties();
        try (Reader in = new InputStreamReader(new FileInputStream(args[1]), StandardCharsets.UTF_8)) {
            finding.load(in);
        }
        String found = answer(args[0], finding);
        System.out.println("asked:    " + finding.getProperty("ask"));
        System.out.println("promised: " + finding.getProperty("promised"));
        System.out.println("found:    " + found);
        boolean again = found.equals(finding.getProperty("found")) && !found.equals(finding.getProperty("promised"));
        System.out.println(again ? "as the page says" : "not what the page says: " + finding.getProperty("found"));
        Runtime.getRuntime().halt(again ? 0 : 1); // no clean stop: the directory is thrown away
    }

    private static String answer(String root, Properties finding) throws Exception {
        DefaultMessageStore store = store(root, finding);
        if (!store.load()) {
            return "load() returns false";
        }
        store.start();
        String[] ask = finding.getProperty("ask").split(" ");
        switch (ask[0]) {
            case "open":
                return "opens";
            case "pull":
                return pull(store, ask[1], Integer.parseInt(ask[2]), ask.length > 3 ? ask[3] : null);
            case "due":
                return due(store, ask[1], Integer.parseInt(ask[2]));
            case "query":
                return query(store, ask[1], ask[2]);
            case "record":
                return record(store, Long.parseLong(ask[1]));
            default:
                throw new IllegalArgumentException(ask[0]);
        }
    }

    /** The log offset of each message that a consumer is given, or the length of what is none. */
    private static String pull(DefaultMessageStore store, String topic, int queueId, String tag) {
        MessageFilter filter = null;
        if (tag != null) {
            SubscriptionData subscription = new SubscriptionData(topic, tag);
            subscription.getTagsSet().add(tag);
            subscription.getCodeSet().add(tag.hashCode());
            filter = new DefaultMessageFilter(subscription);
        }
        List<String> found = new ArrayList<>();
        long at = store.getMinOffsetInQueue(topic, queueId);
        long end = store.getMaxOffsetInQueue(topic, queueId);
        while (at < end) {
            GetMessageResult result = store.getMessage("reader", topic, queueId, at, 32, filter);
            for (SelectMappedBufferResult each : result.getMessageMapedList()) {
                ByteBuffer record = each.getByteBuffer();
                boolean isMessage = record.remaining() >= 91;
                found.add(isMessage ? Long.toString(record.getLong(28)) : "[" + record.remaining() + " bytes]");
            }
            if (result.getNextBeginOffset() <= at) {
                break;
            }
            at = result.getNextBeginOffset();
        }
        return found.isEmpty() ? "nothing" : String.join(" ", found);
    }

    /** When each delayed message of a level is due, after it was stored, by its entry in the queue of the level. */
    private static String due(DefaultMessageStore store, String topic, int queueId) {
        List<String> found = new ArrayList<>();
        ConsumeQueue queue = store.findConsumeQueue(topic, queueId);
        for (long at = queue.getMinOffsetInQueue(); at < queue.getMaxOffsetInQueue(); at++) {
            ByteBuffer entry = queue.getIndexBuffer(at).getByteBuffer();
            MessageExt message = store.lookMessageByOffset(entry.getLong(0));
            found.add((entry.getLong(12) - message.getStoreTimestamp()) + " ms");
        }
        return String.join(", ", found);
    }

    /** The log offset of each message that a key leads to. */
    private static String query(DefaultMessageStore store, String topic, String key) {
        QueryMessageResult result = store.queryMessage(topic, key, 32, 0, Long.MAX_VALUE);
        List<String> found = new ArrayList<>();
        for (ByteBuffer record : result.getMessageBufferList()) {
            found.add(Long.toString(record.getLong(28)));
        }
        return found.isEmpty() ? "nothing" : String.join(" ", found);
    }

    /** The message at a log offset: its topic, its keys, the names of its properties, and how many zeros they hold. */
    private static String record(DefaultMessageStore store, long offset) {
        MessageExt message = offset < store.getMaxPhyOffset() ? store.lookMessageByOffset(offset) : null;
        if (message == null) {
            return "no message";
        }
        long zeros = message.getProperties().toString().chars().filter(each -> each == 0).count();
        return "a message of " + message.getTopic() + " with the keys " + message.getKeys().replace("\0", "")
            + " and the properties " + new TreeMap<>(message.getProperties()).keySet()
            + (zeros > 0 ? ", " + zeros + " zeros in them" : "");
    }

    private static DefaultMessageStore store(String root, Properties finding) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        config.setFileReservedTime(300_000); // no file expires in the meantime
        config.setDeleteWhen("25");
        config.setCleanFileForciblyEnable(false);
        MixAll.properties2Object(finding, config);
        DefaultMessageStore store = new DefaultMessageStore(
            config, new BrokerStatsManager("findings", true), (a, b, c, d, e, f, g) -> { }, new BrokerConfig()) {
            @Override
            public void handleScheduleMessageService(BrokerRole role) { } // delayed messages stay where they are
        };
        Field ha = DefaultMessageStore.class.getDeclaredField("haService");
        ha.setAccessible(true);
        ha.set(store, new HAService(store) {
            @Override
            public void start() { } // no port
        });
        return store;
    }
}
