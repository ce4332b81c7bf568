import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** Makes stores of a directory and of settings under their names in broker.conf. Nothing of theirs listens. */
final class Settings {
    private static final BrokerStatsManager STATS = new BrokerStatsManager("compared", true);

    private Settings() { }

    /** Makes one at a time: the statistics of all stores of a process share a table that is set up in passing. */
    static synchronized DefaultMessageStore store(JSONObject command, boolean delivers) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        String root = command.getString("root");
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        java.util.Properties properties = new java.util.Properties();
        command.getJSONObject("config").forEach((name, value) -> properties.setProperty(name, value.toString()));
        MixAll.properties2Object(properties, config);
        return Version.store(config, STATS, delivers);
    }
}
