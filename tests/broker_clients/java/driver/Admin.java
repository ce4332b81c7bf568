import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.admin.ConsumeStats;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
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
        add(commands, "admin.deleteTopic", (admin, given) -> {
            admin.deleteTopicInBroker(java.util.Set.of(given.getString("broker")), given.getString("topic"));
            return null;
        });
        add(commands, "admin.topics", (admin, given) -> admin.fetchAllTopicList().getTopicList());
        add(commands, "admin.route", (admin, given) ->
                JSON.parse(admin.examineTopicRouteInfo(given.getString("topic")).toJson()));
        add(commands, "admin.cluster", (admin, given) -> JSON.parse(admin.examineBrokerClusterInfo().toJson()));
        add(commands, "admin.topicStats", this::topicStats);
        add(commands, "admin.progress", this::progress);
        add(commands, "admin.runtime", (admin, given) ->
                admin.fetchBrokerRuntimeStats(given.getString("broker")).getTable());
        add(commands, "admin.settings", (admin, given) -> admin.getBrokerConfig(given.getString("broker")));
        add(commands, "admin.consumers", (admin, given) ->
                JSON.parse(admin.examineConsumerConnectionInfo(given.getString("group")).toJson()));
        add(commands, "admin.producers", (admin, given) -> JSON.parse(
                admin.examineProducerConnectionInfo(given.getString("group"), given.getString("topic")).toJson()));
        add(commands, "admin.createGroup", this::createGroup);
        add(commands, "admin.groups", (admin, given) -> JSON.parse(
                admin.getAllSubscriptionGroup(given.getString("broker"), TIMEOUT_MS).toJson()));
        add(commands, "admin.topicSettings", (admin, given) -> JSON.parse(
                admin.getAllTopicConfig(given.getString("broker"), TIMEOUT_MS).toJson()));
        add(commands, "admin.resetOffset", this::resetOffset);
        add(commands, "admin.groupsOf", (admin, given) ->
                admin.queryTopicConsumeByWho(given.getString("topic")).getGroupList());
        add(commands, "admin.running", (admin, given) -> admin
                .getConsumerRunningInfo(given.getString("group"), given.getString("clientId"), false)
                .getProperties());
        add(commands, "admin.consumeDirectly", (admin, given) -> admin
                .consumeMessageDirectly(
                        given.getString("group"),
                        given.getString("clientId"),
                        given.getString("topic"),
                        given.getString("msgId"))
                .getConsumeResult().name());
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

    private Object createGroup(DefaultMQAdminExt admin, JSONObject given) throws Exception {
        SubscriptionGroupConfig group = new SubscriptionGroupConfig();
        group.setGroupName(given.getString("group"));
        group.setRetryMaxTimes(given.getIntValue("retryMaxTimes"));
        admin.createAndUpdateSubscriptionGroupConfig(given.getString("broker"), group);
        return null;
    }

    private Object topicStats(DefaultMQAdminExt admin, JSONObject given) throws Exception {
        Map<String, Object> queues = new HashMap<>();
        admin.examineTopicStats(given.getString("topic")).getOffsetTable().forEach((queue, offsets) -> queues.put(
                String.valueOf(queue.getQueueId()),
                List.of(offsets.getMinOffset(), offsets.getMaxOffset(), offsets.getLastUpdateTimestamp())));
        return queues;
    }

    private Object progress(DefaultMQAdminExt admin, JSONObject given) throws Exception {
        ConsumeStats stats = admin.examineConsumeStats(given.getString("group"));
        List<Map<String, Object>> queues = new ArrayList<>();
        stats.getOffsetTable().forEach((queue, offsets) -> queues.add(Map.of(
                "topic", queue.getTopic(),
                "queueId", queue.getQueueId(),
                "broker", offsets.getBrokerOffset(),
                "consumer", offsets.getConsumerOffset())));
        return queues;
    }

    private Object resetOffset(DefaultMQAdminExt admin, JSONObject given) throws Exception {
        Map<String, Long> offsets = new HashMap<>();
        admin.resetOffsetByTimestamp(
                        given.getString("topic"), given.getString("group"), given.getLongValue("timestamp"), true)
                .forEach((queue, offset) -> offsets.put(String.valueOf(queue.getQueueId()), offset));
        return offsets;
    }
}
