import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.DataVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.ClusterInfo;
import org.apache.rocketmq.common.protocol.body.GetConsumerStatusBody;
import org.apache.rocketmq.common.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.common.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.common.protocol.body.ResetOffsetBody;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.common.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Answers lines of KIND, tab, base64 of a text, with what RocketMQ's own classes read in the text. */
public class Fastjson {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", 2);
            byte[] raw = Base64.getDecoder().decode(parts[1]);
            Map<String, Object> answer = new TreeMap<>();
            try {
                answer.put("is", read(parts[0], raw));
            } catch (Exception error) {
                answer.put("error", error.getClass().getSimpleName());
            }
            System.out.println(JSON.toJSONString(answer, SerializerFeature.MapSortField,
                SerializerFeature.WriteNonStringKeyAsString, SerializerFeature.DisableCircularReferenceDetect,
                SerializerFeature.WriteMapNullValue, SerializerFeature.BrowserCompatible));
        }
    }

    private static Object read(String kind, byte[] raw) {
        switch (kind) {
            case "header":
                return header(RemotingSerializable.decode(raw, RemotingCommand.class));
            case "heartbeat":
                return heartbeat(RemotingSerializable.decode(raw, HeartbeatData.class));
            case "lock":
                LockBatchRequestBody lock = RemotingSerializable.decode(raw, LockBatchRequestBody.class);
                return of("clientId", lock.getClientId(), "consumerGroup", lock.getConsumerGroup(), "mqSet", texts(lock.getMqSet()));
            case "group":
                return RemotingSerializable.decode(raw, SubscriptionGroupConfig.class);
            case "topics":
                return RemotingSerializable.decode(raw, TopicConfigSerializeWrapper.class);
            case "version":
                return RemotingSerializable.decode(raw, DataVersion.class);
            case "offsets":
                Map<String, Object> offsets = new TreeMap<>();
                RemotingSerializable.decode(raw, GetConsumerStatusBody.class).getMessageQueueTable()
                    .forEach((queue, offset) -> offsets.put(text(queue), offset));
                return offsets;
            case "any":
                return JSON.parse(new String(raw, StandardCharsets.UTF_8));
            case "written":
                return new String(RemotingSerializable.encode(written(new String(raw, StandardCharsets.UTF_8))), StandardCharsets.UTF_8);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static Object header(RemotingCommand command) {
        Map<String, String> fields = command.getExtFields();
        return of("code", command.getCode(), "language", command.getLanguage(), "version", command.getVersion(),
            "opaque", command.getOpaque(), "flag", command.getFlag(), "remark", command.getRemark(),
            "extFields", fields == null ? new TreeMap<>() : new TreeMap<>(fields));
    }

    private static Object heartbeat(HeartbeatData heartbeat) {
        List<String> producers = new ArrayList<>();
        for (ProducerData each : heartbeat.getProducerDataSet()) {
            producers.add(each.getGroupName());
        }
        producers.sort(null);
        Map<String, Object> consumers = new TreeMap<>();
        for (ConsumerData each : heartbeat.getConsumerDataSet()) {
            Map<String, Object> topics = new TreeMap<>();
            for (SubscriptionData one : each.getSubscriptionDataSet()) {
                topics.put(one.getTopic(), of("subString", one.getSubString(), "expressionType", one.getExpressionType(),
                    "classFilterMode", one.isClassFilterMode()));
            }
            consumers.put(each.getGroupName(), of("consumeType", each.getConsumeType(), "messageModel", each.getMessageModel(),
                "consumeFromWhere", each.getConsumeFromWhere(), "unitMode", each.isUnitMode(), "topics", topics));
        }
        return of("clientID", heartbeat.getClientID(), "producers", producers, "consumers", consumers);
    }

    /** Objects as the client and the broker of 4.9 make them. */
    private static Object written(String name) {
        MessageQueue first = new MessageQueue("T \"1\"", "broker-a", 0);
        MessageQueue second = new MessageQueue("T-2", "broker-ü", 7);
        TopicConfigSerializeWrapper topics = new TopicConfigSerializeWrapper();
        topics.getTopicConfigTable().put("T", new TopicConfig("T", 4, 8, 6));
        topics.setDataVersion(new DataVersion());
        topics.getDataVersion().setTimestamp(1795309986689L);
        switch (name) {
            case "header":
                RemotingCommand command = RemotingCommand.createRequestCommand(310, null);
                command.setOpaque(7);
                command.setVersion(409);
                command.setRemark("a\nb");
                command.setExtFields(new HashMap<>());
                command.getExtFields().put("i", "KEYS\u0001k\u0002");
                command.getExtFields().put("é", "\ud83d\ude00");
                return command;
            case "heartbeat":
                SubscriptionData subscription = new SubscriptionData("T", "A || B");
                subscription.setSubVersion(1795309986689L);
                ConsumerData consumer = new ConsumerData();
                consumer.setGroupName("g");
                consumer.setConsumeType(ConsumeType.CONSUME_ACTIVELY);
                consumer.setMessageModel(MessageModel.BROADCASTING);
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
                consumer.getSubscriptionDataSet().add(subscription);
                ProducerData producer = new ProducerData();
                producer.setGroupName("p");
                HeartbeatData heartbeat = new HeartbeatData();
                heartbeat.setClientID("127.0.0.1@1");
                heartbeat.getProducerDataSet().add(producer);
                heartbeat.getConsumerDataSet().add(consumer);
                return heartbeat;
            case "lock":
                LockBatchRequestBody lock = new LockBatchRequestBody();
                lock.setClientId("c");
                lock.setConsumerGroup("g");
                lock.setMqSet(new HashSet<>(Arrays.asList(first, second)));
                return lock;
            case "group":
                SubscriptionGroupConfig group = new SubscriptionGroupConfig();
                group.setGroupName("g");
                group.setConsumeBroadcastEnable(false);
                return group;
            case "topics":
                return topics;
            case "register":
                RegisterBrokerBody register = new RegisterBrokerBody();
                register.setTopicConfigSerializeWrapper(topics);
                return register;
            case "offsets":
                GetConsumerStatusBody status = new GetConsumerStatusBody();
                status.getMessageQueueTable().put(first, 12L);
                status.getMessageQueueTable().put(second, Long.MAX_VALUE);
                return status;
            case "reset":
                ResetOffsetBody reset = new ResetOffsetBody();
                reset.setOffsetTable(new HashMap<>());
                reset.getOffsetTable().put(second, -1L);
                return reset;
            case "cluster":
                HashMap<Long, String> addresses = new HashMap<>();
                addresses.put(0L, "127.0.0.1:10911");
                addresses.put(1L, "[::1]:10911");
                ClusterInfo cluster = new ClusterInfo();
                cluster.setBrokerAddrTable(new HashMap<>());
                cluster.getBrokerAddrTable().put("broker-a", new BrokerData("C", "broker-a", addresses));
                cluster.setClusterAddrTable(new HashMap<>());
                cluster.getClusterAddrTable().put("C", new HashSet<>(Arrays.asList("broker-a")));
                return cluster;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static List<String> texts(Collection<MessageQueue> queues) {
        List<String> texts = new ArrayList<>();
        for (MessageQueue each : queues) {
            texts.add(text(each));
        }
        texts.sort(null);
        return texts;
    }

    private static String text(MessageQueue queue) {
        return queue.getTopic() + " " + queue.getBrokerName() + " " + queue.getQueueId();
    }

    private static Map<String, Object> of(Object... pairs) {
        Map<String, Object> map = new TreeMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            map.put((String) pairs[at], pairs[at + 1]);
        }
        return map;
    }
}
