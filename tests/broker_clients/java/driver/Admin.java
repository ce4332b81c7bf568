import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What operators ask and tell a broker. */
final class Admin {
    private static final long TIMEOUT_MS = 5000;

    private final Map<String, DefaultMQAdminExt> running = new HashMap<>();

    private interface Call {
        Object of(DefaultMQAdminExt admin, JSONObject given) throws Exception;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("admin.start", this::start);
        commands.put("admin.stop", given -> {
            running.remove(given.getString("admin")).shutdown();
            return null;
        });
        add(commands, "admin.createTopic", this::createTopic);
        add(commands, "admin.resetOffset", this::resetOffset);
    }

    private void add(Map<String, Driver.Command> commands, String name, Call call) {
        commands.put(name, given -> call.of(running.get(given.getString("admin")), given));
    }

    private Object start(JSONObject given) throws Exception {
        RPCHook hook = Settings.hook(given);
        DefaultMQAdminExt admin = hook == null ? new DefaultMQAdminExt(TIMEOUT_MS) : new DefaultMQAdminExt(hook, TIMEOUT_MS);
        Settings.apply(admin, given);
        admin.start();
        running.put(given.getString("name"), admin);
        return null;
    }

    private Object createTopic(DefaultMQAdminExt admin, JSONObject given) throws Exception {
        TopicConfig topic = new TopicConfig(given.getString("topic"));
        topic.setReadQueueNums(given.getIntValue("queues"));
        topic.setWriteQueueNums(given.getIntValue("queues"));
        admin.createAndUpdateTopicConfig(given.getString("broker"), topic);
        return null;
    }

    private Object resetOffset(DefaultMQAdminExt admin, JSONObject given) throws Exception {
        Map<String, Long> offsets = new HashMap<>();
        admin.resetOffsetByTimestamp(
                        given.getString("topic"), given.getString("group"), given.getLongValue("timestamp"), true)
                .forEach((queue, offset) -> offsets.put(String.valueOf(queue.getQueueId()), offset));
        return offsets;
    }
}
