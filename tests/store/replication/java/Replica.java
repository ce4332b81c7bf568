import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.util.Arrays;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * The real store with its real replication, listening on loopback only. Arguments: root, role, flush type, port to
 * listen at for slaves, address of the master or "-", bytes of a segment.
 *
 * Commands, a line each, answered by a line behind "= ": "put NUMBER BODY_BYTES" by the status, "end" by the log's end, "stop".
 */
public final class Replica {
    private Replica() { }

    public static void main(String[] arguments) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(arguments[0]);
        config.setStorePathCommitLog(arguments[0] + "/commitlog");
        config.setBrokerRole(BrokerRole.valueOf(arguments[1]));
        config.setFlushDiskType(FlushDiskType.valueOf(arguments[2]));
        config.setHaListenPort(Integer.parseInt(arguments[3]));
        config.setMappedFileSizeCommitLog(Integer.parseInt(arguments[5]));
        config.setMappedFileSizeConsumeQueue(2000);
        config.setMaxMessageSize(2048);
        config.setMaxHashSlotNum(100);
        config.setMaxIndexNum(400);
        config.setHaSendHeartbeatInterval(500);
        BrokerConfig broker = new BrokerConfig();
        broker.setBrokerId(config.getBrokerRole() == BrokerRole.SLAVE ? 1 : 0);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("replicas", true),
            (topic, queueId, offset, tags, time, bits, properties) -> { }, broker);
        listenOnLoopback(store, config.getHaListenPort());
        if (!store.load()) {
            throw new IllegalStateException("load() is false");
        }
        store.start();
        if (!arguments[4].equals("-")) {
            store.updateHaMasterAddress(arguments[4]);
        }
        System.out.println("= ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null && !line.equals("stop"); line = commands.readLine()) {
            String[] words = line.split(" ");
            System.out.println("= " + (words[0].equals("put")
                ? put(store, words[1], Integer.parseInt(words[2])) : Long.toString(store.getMaxPhyOffset())));
        }
        store.shutdown();
        System.out.println("= stopped");
        System.exit(0);
    }

    private static String put(DefaultMessageStore store, String number, int bodyBytes) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("T");
        message.setQueueId(0);
        byte[] body = new byte[bodyBytes];
        Arrays.fill(body, (byte) 'x');
        message.setBody(body);
        MessageAccessor.putProperty(message, "KEYS", "k" + number);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 40_000));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        return store.putMessage(message).getPutMessageStatus().name();
    }

    /** The real one listens on every address there is. */
    private static void listenOnLoopback(DefaultMessageStore store, int port) throws Exception {
        Field ha = DefaultMessageStore.class.getDeclaredField("haService");
        ha.setAccessible(true);
        Field accepting = HAService.class.getDeclaredField("acceptSocketService");
        accepting.setAccessible(true);
        Object service = accepting.get(ha.get(store));
        Field address = service.getClass().getDeclaredField("socketAddressListen");
        address.setAccessible(true);
        address.set(service, new InetSocketAddress("127.0.0.1", port));
    }
}
