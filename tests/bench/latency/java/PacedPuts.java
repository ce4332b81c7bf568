import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;

/**
 * Puts into the real store at given arrivals.
 *
 * Requests, answers and both files are those of `reports/studies/latency/real/process.py`, and the rule for puts that
 * wait is that of `produce` in `traffic.py`. Arguments: the store's root, its settings as JSON, the bytes of a body.
 */
public final class PacedPuts {
    private final DefaultMessageStore store;
    private final int bodyBytes;
    /** Threads stay, because the store keeps a buffer of 4 MiB for each. */
    private final ExecutorService threads =
        new ThreadPoolExecutor(0, Integer.MAX_VALUE, 1, TimeUnit.HOURS, new SynchronousQueue<>());

    private PacedPuts(DefaultMessageStore store, int bodyBytes) {
        this.store = store;
        this.bodyBytes = bodyBytes;
    }

    public static void main(String[] args) {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // RocketMQ's own output must not come between answers
        try {
            serve(args, answers);
        } catch (Throwable thrown) {
            answers.println(new JSONObject().fluentPut("error", thrown.toString()).toJSONString());
        }
        Runtime.getRuntime().halt(0); // threads of the store or the pool would keep the process
    }

    private static void serve(String[] args, PrintStream answers) throws Exception {
        JSONObject place = new JSONObject().fluentPut("root", args[0]).fluentPut("config", JSON.parseObject(args[1]));
        DefaultMessageStore store = Settings.store(place, false);
        if (!store.load()) {
            throw new IllegalStateException("load() is false");
        }
        store.start();
        PacedPuts puts = new PacedPuts(store, Integer.parseInt(args[2]));
        stored(store.putMessage(puts.message())); // creates the first segment
        answers.println("{\"ready\": true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject request = JSON.parseObject(line);
            if (request.getString("do").equals("stop")) {
                break;
            }
            JSONObject answer = new JSONObject();
            try {
                answer.put("puts", puts.put(request));
            } catch (Throwable thrown) {
                answer.put("error", thrown.toString());
            }
            answers.println(answer.toJSONString());
        }
        store.shutdown();
        answers.println("{\"stopped\": true}");
    }

    private int put(JSONObject request) throws Throwable {
        LongBuffer arrivals = ByteBuffer.wrap(Files.readAllBytes(Path.of(request.getString("arrivals"))))
            .order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
        JSONArray counts = request.getJSONArray("counts");
        int puts = arrivals.remaining();
        ByteBuffer answers = ByteBuffer.allocate(2 * Long.BYTES * puts).order(ByteOrder.LITTLE_ENDIAN);
        List<Future<?>> producers = new ArrayList<>();
        long startNs = System.nanoTime();
        int first = 0;
        for (int number = 0; number < counts.size(); number++) {
            long[] gapsNs = new long[counts.getIntValue(number)];
            arrivals.get(gapsNs);
            LongBuffer latencies = part(answers, first, gapsNs.length);
            LongBuffer answered = part(answers, puts + first, gapsNs.length);
            producers.add(threads.submit(() -> produce(gapsNs, startNs, latencies, answered)));
            first += gapsNs.length;
        }
        try {
            for (Future<?> producer : producers) {
                producer.get();
            }
        } catch (ExecutionException failure) {
            throw failure.getCause();
        }
        Files.write(Path.of(request.getString("answers")), answers.array());
        return puts;
    }

    private static LongBuffer part(ByteBuffer all, int first, int count) {
        ByteBuffer bytes = all.duplicate().order(ByteOrder.LITTLE_ENDIAN);
        bytes.position(first * Long.BYTES).limit((first + count) * Long.BYTES);
        return bytes.slice().order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    }

    private void produce(long[] gapsNs, long startNs, LongBuffer latencies, LongBuffer answered) {
        MessageExtBrokerInner message = message();
        long begunNs = System.nanoTime();
        for (long gapNs : gapsNs) {
            long dueNs = begunNs + gapNs;
            if (dueNs - System.nanoTime() > 0) {
                for (long early = dueNs - System.nanoTime(); early > 0; early = dueNs - System.nanoTime()) {
                    LockSupport.parkNanos(early);
                }
                dueNs = System.nanoTime();
            }
            begunNs = dueNs;
            stored(store.putMessage(message));
            long endNs = System.nanoTime();
            latencies.put(endNs - begunNs);
            answered.put(endNs - startNs);
        }
    }

    private static void stored(PutMessageResult result) {
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("a put was answered " + result.getPutMessageStatus());
        }
    }

    private MessageExtBrokerInner message() {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("Latency");
        message.setBody(new byte[bodyBytes]);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 0));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        message.setPropertiesString("");
        return message;
    }
}
