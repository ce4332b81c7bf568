import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What is particular to RocketMQ 4.9. */
final class Version {
    private Version() { }

    /** Makes a store that opens no port, and delivers delayed messages only if it is to. */
    static DefaultMessageStore store(MessageStoreConfig config, BrokerStatsManager stats, boolean delivers)
        throws Exception {
        DefaultMessageStore store = new JudgedStore(config, stats, delivers);
        Field ha = DefaultMessageStore.class.getDeclaredField("haService");
        ha.setAccessible(true);
        ha.set(store, new NoReplicas(store));
        return store;
    }

    /** Reads the record at a buffer's position, as the walk over the log does, and moves behind it. */
    static DispatchRequest checked(DefaultMessageStore store, ByteBuffer buffer) {
        return store.getCommitLog().checkMessageAndReturnSize(buffer, false, true);
    }

    /** How far delayed delivery has come, as delayOffset.json has it. */
    static String progress(DefaultMessageStore store) {
        return store.getScheduleMessageService().encode(false);
    }

    /** The store as it is, but for delayed messages, which a store that is only looked at must not deliver. */
    private static final class JudgedStore extends DefaultMessageStore {
        private final boolean delivers;

        JudgedStore(MessageStoreConfig config, BrokerStatsManager stats, boolean delivers) throws IOException {
            super(config, stats, (topic, queueId, offset, tags, time, bits, properties) -> { }, new BrokerConfig());
            this.delivers = delivers;
        }

        @Override
        public void handleScheduleMessageService(BrokerRole role) {
            if (delivers) {
                super.handleScheduleMessageService(role);
            }
        }
    }

    private static final class NoReplicas extends HAService {
        NoReplicas(DefaultMessageStore store) throws IOException {
            super(store);
        }

        @Override
        public void start() { }

        @Override
        public void shutdown() { }
    }
}
