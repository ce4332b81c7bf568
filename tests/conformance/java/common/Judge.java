import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The real RocketMQ store, as a process that takes commands on stdin and answers on stdout, a line of JSON each.
 *
 * Several directories at a time: a command is {"id": n, "do": name, ...}; lines about it carry its id, and the last of
 * them has "done": true. Commands: `open`, see OpenedStore; `write`, see Writer; `bench-put`, `bench-get`,
 * `bench-query` and `bench-load`, see Bench; `halt` ends the process without any farewell, as SIGKILL would.
 */
public final class Judge {
    private final PrintStream out;

    private Judge(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // RocketMQ's own output must not come between answers
        ExecutorService workers = Executors.newFixedThreadPool(Integer.parseInt(args[0]));
        Judge judge = new Judge(answers);
        judge.answer(new JSONObject(true).fluentPut("ready", true));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject command = JSON.parseObject(line);
            workers.execute(() -> judge.carryOut(command));
        }
        Runtime.getRuntime().halt(0); // stores that were left open are left as they are
    }

    private void carryOut(JSONObject command) {
        int id = command.getIntValue("id");
        JSONObject answer = new JSONObject(true);
        Runnable afterwards = () -> { };
        try {
            switch (command.getString("do")) {
                case "open":
                    OpenedStore opened = new OpenedStore(command);
                    opened.observe(answer);
                    afterwards = opened::discard;
                    break;
                case "write":
                    new Writer(command, ack -> answer(ack.fluentPut("id", id))).run();
                    break;
                case "bench-put":
                    Bench.put(command, answer);
                    break;
                case "bench-get":
                    Bench.get(command, answer);
                    break;
                case "bench-query":
                    Bench.query(command, answer);
                    break;
                case "bench-load":
                    Bench.load(command, answer);
                    break;
                case "halt":
                    Runtime.getRuntime().halt(9);
                    break;
                default:
                    throw new IllegalArgumentException("no command " + command.getString("do"));
            }
        } catch (Throwable thrown) { // an Error of the store is an answer, too
            answer.put("exception", thrown.toString());
            answer.put("thrownAt", thrownAt(thrown));
        }
        answer(answer.fluentPut("id", id).fluentPut("done", true));
        afterwards.run();
    }

    /** Where it was thrown, and from where in RocketMQ that was called. */
    private static String thrownAt(Throwable thrown) {
        StringBuilder places = new StringBuilder();
        for (StackTraceElement frame : thrown.getStackTrace()) {
            places.append(places.length() == 0 ? "" : " < ").append(frame);
            if (frame.getClassName().startsWith("org.apache.rocketmq.")) {
                break;
            }
        }
        return places.toString();
    }

    private synchronized void answer(JSONObject fields) {
        out.print(JSON.toJSONString(fields, SerializerFeature.DisableCircularReferenceDetect));
        out.print('\n');
        out.flush();
    }
}
