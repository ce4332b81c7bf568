import java.io.FileInputStream;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** Opens a store directory with the public RocketMQ store 5.3, as Reproduce does with that of 4.9; asks no more. */
public final class Start5 {
    public static void main(String[] args) throws Exception {
        Properties finding = new Properties();
        try (FileInputStream in = new FileInputStream(args[1])) {
            finding.load(in);
        }
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(args[0]);
        config.setStorePathCommitLog(args[0] + "/commitlog");
        MixAll.properties2Object(finding, config);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("findings", true),
            (a, b, c, d, e, f, g) -> { }, new BrokerConfig(), new ConcurrentHashMap<>());
        String found = store.load() ? "opens" : "load() returns false";
        System.out.println("asked:    " + finding.getProperty("ask"));
        System.out.println("promised: " + finding.getProperty("promised"));
        System.out.println("found:    " + found);
        boolean again = found.equals(finding.getProperty("found")) && !found.equals(finding.getProperty("promised"));
        System.out.println(again ? "as the page says" : "not what the page says: " + finding.getProperty("found"));
        Runtime.getRuntime().halt(again ? 0 : 1);
    }
}
