import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What is particular to RocketMQ 5.3: delayed delivery is not a part of the store, but of the broker. */
final class Version {
    private Version() { }

    /** Makes a store that opens no port. */
    static DefaultMessageStore store(MessageStoreConfig config, BrokerStatsManager stats, boolean delivers)
        throws Exception {
        DefaultMessageStore store = new DefaultMessageStore(config, stats,
            (topic, queueId, offset, tags, time, bits, properties) -> { }, new BrokerConfig(), new ConcurrentHashMap<>());
        Field ha = DefaultMessageStore.class.getDeclaredField("haService");
        ha.setAccessible(true);
        ha.set(store, Proxy.newProxyInstance(HAService.class.getClassLoader(), new Class<?>[] {HAService.class},
            (proxy, method, arguments) -> nothing(method.getReturnType())));
        return store;
    }

    /** Answers as replication without any replica. */
    private static Object nothing(Class<?> type) {
        if (type == boolean.class) {
            return false;
        }
        if (type == long.class) {
            return 0L;
        }
        return type == int.class ? 0 : null;
    }

    /** Reads the record at a buffer's position, as the walk over the log does, and moves behind it. */
    static DispatchRequest checked(DefaultMessageStore store, ByteBuffer buffer) {
        return store.getCommitLog().checkMessageAndReturnSize(buffer, false, false);
    }

    /** Nothing: how far delayed delivery has come is not the store's business. */
    static String progress(DefaultMessageStore store) {
        return null;
    }
}
