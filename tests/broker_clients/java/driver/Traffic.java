import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** A sender for each queue, which sends "QUEUE-0", "QUEUE-1", …, each again until it is acknowledged. */
final class Traffic {
    private static final int PAUSE_MS = 20;

    private final Producers producers;
    private final Map<String, Run> running = new HashMap<>();

    Traffic(Producers producers) {
        this.producers = producers;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("traffic.start", this::start);
        commands.put("traffic.count", given -> running.get(given.getString("name")).acknowledged.size());
        commands.put("traffic.stop", given -> running.remove(given.getString("name")).stop());
    }

    private Object start(JSONObject given) throws Exception {
        DefaultMQProducer producer = producers.get(given);
        Run run = new Run();
        for (MessageQueue queue : Producers.queues(producer, given.getString("topic"))) {
            Thread sender = new Thread(() -> run.send(producer, queue), "sender of " + queue.getQueueId());
            run.senders.add(sender);
            sender.start();
        }
        running.put(given.getString("name"), run);
        return null;
    }

    private static final class Run {
        final List<Map<String, Object>> acknowledged = Collections.synchronizedList(new ArrayList<>());
        final List<Thread> senders = new ArrayList<>();
        final AtomicInteger failures = new AtomicInteger();
        volatile boolean stopping;

        void send(DefaultMQProducer producer, MessageQueue queue) {
            for (int number = 0; !stopping; number++) {
                String body = queue.getQueueId() + "-" + number;
                while (!tried(producer, queue, body) && !stopping) {
                    failures.incrementAndGet();
                }
            }
        }

        private boolean tried(DefaultMQProducer producer, MessageQueue queue, String body) {
            try {
                Thread.sleep(1);
                Message message = new Message(queue.getTopic(), body.getBytes(StandardCharsets.UTF_8));
                SendResult result = producer.send(message, queue);
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    return false;
                }
                Map<String, Object> one = Producers.described(result);
                one.put("body", body);
                acknowledged.add(one);
                return true;
            } catch (Exception error) {
                pause();
                return false;
            }
        }

        private static void pause() {
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        Object stop() throws InterruptedException {
            stopping = true;
            for (Thread sender : senders) {
                sender.join();
            }
            return Map.of("acknowledged", acknowledged, "failures", failures.get());
        }
    }
}
