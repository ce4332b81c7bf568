import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * Drives the official client: each line of standard input is a command, {"do": NAME, ...}, and is answered by a line on
 * standard output, "> " and {"is": ...} or {"error": CLASS, "message": ..., "code": the broker's, if it was the broker's}.
 */
public final class Driver {
    interface Command {
        Object run(JSONObject given) throws Exception;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints is no answer
        Map<String, Command> commands = new HashMap<>();
        Producers producers = new Producers();
        producers.addTo(commands);
        new Traffic(producers).addTo(commands);
        new Consumers().addTo(commands);
        new Pulls().addTo(commands);
        new Queries(producers).addTo(commands);
        new Admin().addTo(commands);

        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println("> " + JSON.toJSONString(answer(commands, JSON.parseObject(line))));
        }
        System.exit(0); // clients that a test left running have threads of their own
    }

    private static Map<String, Object> answer(Map<String, Command> commands, JSONObject given) {
        Map<String, Object> answer = new HashMap<>();
        try {
            Command command = commands.get(given.getString("do"));
            if (command == null) {
                throw new IllegalArgumentException("no such command: " + given);
            }
            Object is = command.run(given);
            answer.put("is", is == null ? true : is);
        } catch (Exception error) {
            answer.put("error", error.getClass().getSimpleName());
            answer.put("message", error.getCause() == null ? error.getMessage() : error.getMessage() + ": " + error.getCause());
            answer.put("code", code(error));
            error.printStackTrace();
        }
        return answer;
    }

    /** Calls a setter that only newer clients have. */
    static void set(Object target, String setter, Class<?> type, Object value) throws Exception {
        try {
            target.getClass().getMethod(setter, type).invoke(target, value);
        } catch (NoSuchMethodException older) {
            throw new UnsupportedOperationException(setter);
        }
    }

    private static Integer code(Throwable error) {
        if (error instanceof MQBrokerException) {
            return ((MQBrokerException) error).getResponseCode();
        }
        if (error.getCause() instanceof MQBrokerException) {
            return code(error.getCause());
        }
        return error instanceof MQClientException ? ((MQClientException) error).getResponseCode() : null;
    }
}
