import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A transaction that its producer leaves undecided until it is given up; an administrator has it checked again. */
final class Resume {
    private static final String GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC";

    private Resume() {
    }

    static void run(String nameServer, String broker, String topic, PrintStream printing) throws Exception {
        AtomicBoolean isResumed = new AtomicBoolean();
        AtomicInteger asked = new AtomicInteger();
        TransactionMQProducer producer = new TransactionMQProducer("undecided");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("undecided of " + nameServer);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (isResumed.get()) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }
                asked.incrementAndGet();
                return LocalTransactionState.UNKNOW;
            }
        });
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("given-up");
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("given up of " + nameServer);
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("resume of " + nameServer);
        producer.start();
        consumer.start();
        admin.start();
        try {
            producer.sendMessageInTransaction(new Message(topic, "late".getBytes(StandardCharsets.UTF_8)), null);
            MessageExt givenUp = first(consumer, new MessageQueue(GIVEN_UP, broker, 0));
            printing.println("given up, asked " + asked.get() + " times: " + text(givenUp));
            isResumed.set(true);
            printing.println("resumed: " + admin.resumeCheckHalfMessage(((MessageClientExt) givenUp).getOffsetMsgId()));
            MessageExt committed = null;
            while (committed == null) {
                for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                    PullResult pulled = consumer.pull(queue, "*", 0, 32);
                    if (pulled.getPullStatus() == PullStatus.FOUND) {
                        committed = pulled.getMsgFoundList().get(0);
                    }
                }
                Thread.sleep(200);
            }
            printing.println("committed: " + text(committed));
        } finally {
            admin.shutdown();
            consumer.shutdown();
            producer.shutdown();
        }
    }

    private static MessageExt first(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        while (true) {
            try {
                PullResult pulled = consumer.pull(queue, "*", 0, 1);
                if (pulled.getPullStatus() == PullStatus.FOUND) {
                    return pulled.getMsgFoundList().get(0);
                }
            } catch (Exception error) { // a broker that has given nothing up yet may not have the topic
                consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory()
                    .updateTopicRouteInfoFromNameServer(queue.getTopic());
            }
            Thread.sleep(200);
        }
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8) + " with flags " + message.getSysFlag()
            + " for " + message.getProperty("REAL_TOPIC");
    }
}
