import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs command lines of mqadmin in one JVM: a JSON array of arguments a line in, a JSON object a line out.
 *
 * A command that ends the JVM is answered on the way out. Besides mqadmin's own there are clients that commands ask
 * about: "@produce" and "@consume" start them, they stay until the end, and what they found is the answer's "found".
 * "@status" and "@resume" are what administrators ask for that no command line does. "@wait" lets time pass.
 */
public class MqAdmin {
    private static final PrintStream ANSWERS = System.out;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();
    private static final List<DefaultMQPushConsumer> CONSUMERS = new ArrayList<>();
    private static ByteArrayOutputStream printed;

    public static void main(String[] none) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> answer(null, "exit")));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] arguments = JSON.parseArray(line, String.class).toArray(new String[0]);
            printed = new ByteArrayOutputStream();
            PrintStream printing = new PrintStream(printed, true, "UTF-8");
            System.setOut(printing);
            System.setErr(printing);
            Object found = null;
            try {
                String first = arguments.length == 0 ? "" : arguments[0];
                if ("@produce".equals(first)) {
                    found = produce(arguments);
                } else if ("@consume".equals(first)) {
                    found = consume(arguments);
                } else if ("@status".equals(first)) {
                    status(arguments);
                } else if ("@resume".equals(first)) {
                    Resume.run(arguments[1], arguments[2], arguments[3], printing);
                } else if ("@wait".equals(first)) {
                    Thread.sleep(Long.parseLong(arguments[1]));
                } else {
                    MQAdminStartup.main(arguments);
                }
            } catch (Throwable thrown) {
                thrown.printStackTrace(printing);
            }
            answer(found, "returned");
        }
        for (DefaultMQPushConsumer consumer : CONSUMERS) {
            consumer.shutdown();
        }
        for (DefaultMQProducer producer : PRODUCERS.values()) {
            producer.shutdown();
        }
    }

    private static synchronized void answer(Object found, String ended) {
        if (printed == null) {
            return;
        }
        JSONObject answer = new JSONObject();
        answer.put("found", found);
        answer.put("ended", ended);
        answer.put("printed", new String(printed.toByteArray(), StandardCharsets.UTF_8));
        printed = null;
        ANSWERS.println(answer.toJSONString());
        ANSWERS.flush();
    }

    /** name server, group, topic, client's id or nothing; printed: which clients answered, how far in which queues. */
    private static void status(String[] arguments) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(arguments[1]);
        admin.setInstanceName("status of " + arguments[1]);
        admin.start();
        try {
            String client = arguments.length > 4 ? arguments[4] : "";
            System.out.println(admin.getConsumeStatus(arguments[3], arguments[2], client));
        } finally {
            admin.shutdown();
        }
    }

    /** name server, group, topic, queue, key, body; found: offset id and unique id. */
    private static Object produce(String[] arguments) throws Exception {
        String nameServer = arguments[1], group = arguments[2], topic = arguments[3];
        DefaultMQProducer producer = PRODUCERS.get(nameServer + group);
        if (producer == null) {
            producer = new DefaultMQProducer(group);
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName(nameServer);
            producer.start();
            PRODUCERS.put(nameServer + group, producer);
        }
        Message message = new Message(topic, "tag", arguments[5], arguments[6].getBytes(StandardCharsets.UTF_8));
        int queueId = Integer.parseInt(arguments[4]);
        SendResult sent = producer.send(message, (queues, each, ignored) -> queueOf(queues, queueId), null);
        producer.getDefaultMQProducerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        JSONObject found = new JSONObject();
        found.put("offsetId", sent.getOffsetMsgId());
        found.put("uniqueId", sent.getMsgId());
        return found;
    }

    private static MessageQueue queueOf(List<MessageQueue> queues, int queueId) {
        return queues.stream().filter(queue -> queue.getQueueId() == queueId).findFirst().get();
    }

    /** name server, group, topic, messages and queues to wait for; found: the client's id. */
    private static Object consume(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        AtomicInteger count = new AtomicInteger();
        consumer.setNamesrvAddr(arguments[1]);
        consumer.setInstanceName(arguments[1].replaceAll("\\D", "-"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[3], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.add(consumer);
        DefaultMQPushConsumerImpl inner = consumer.getDefaultMQPushConsumerImpl();
        MQClientInstance client = inner.getmQClientFactory();
        int queues = Integer.parseInt(arguments[5]);
        while (count.get() < Integer.parseInt(arguments[4])
            || inner.getRebalanceImpl().getProcessQueueTable().size() < queues) {
            client.updateTopicRouteInfoFromNameServer();
            client.doRebalance();
            Thread.sleep(50);
        }
        client.sendHeartbeatToAllBrokerWithLock();
        inner.persistConsumerOffset();
        return client.getClientId();
    }
}
