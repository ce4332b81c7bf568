import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * The real store as a program to be recorded: it puts what it is asked to, and prints each answer, a line of JSON each.
 *
 * Argument: Writer's command, with `settleMs`: how long it goes on behind the last put, before it ends as if killed.
 */
public final class RecordedStore {
    private RecordedStore() { }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // RocketMQ's own output is no promise
        JSONObject command = JSON.parseObject(args[0]);
        new Writer(command, answer -> {
            answers.print(answer.toJSONString() + "\n");
            answers.flush();
        }).run();
        Thread.sleep(command.getLongValue("settleMs"));
        Runtime.getRuntime().halt(0);
    }
}
