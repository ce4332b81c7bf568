import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What transactions.py is to the programs in Python: the same transactions, the same breaches. */
final class Transactions {
    static final int COUNT = 3;
    static final int ROWS = 8;
    private static final int VALUE_BYTES = 100;

    /** Commits transactions to a store in the working directory, and counts the rows of each in another one. */
    interface Store {
        /** Makes it empty, under a setting. */
        void make(String setting) throws Exception;

        /** Commits under a setting, and calls {@link #promise} after each transaction. */
        void write(String setting) throws Exception;

        /** Opens it as the next user would, returns the rows of each transaction, and writes to it. */
        int[] find(Path directory) throws Exception;

        /** Returns name and version. */
        String version() throws Exception;
    }

    /** A value was never stored. */
    static final class Wrong extends Exception {
        Wrong(String what) {
            super(what);
        }
    }

    private Transactions() {}

    static String key(int transaction, int row) {
        return "k" + transaction + "-" + row;
    }

    static byte[] value(int transaction) {
        byte[] value = new byte[VALUE_BYTES];
        Arrays.fill(value, (byte) transaction);
        return value;
    }

    /** Returns the transaction of this value. */
    static int transaction(byte[] value) throws Wrong {
        for (int number = 1; number <= COUNT; number++) {
            if (Arrays.equals(value, value(number))) {
                return number;
            }
        }
        throw new Wrong("a value of " + value.length + " bytes");
    }

    /** Says that a transaction is committed. */
    static void promise(int transaction) {
        System.out.println(transaction);
        System.out.flush();
    }

    /** Returns the version in the name of the jar that a class comes from. */
    static String versionOf(String name, Class<?> one) {
        String jar = Path.of(one.getProtectionDomain().getCodeSource().getLocation().getPath()).getFileName().toString();
        Matcher version = Pattern.compile("-(\\d.*)\\.jar").matcher(jar);
        if (!version.find()) {
            throw new IllegalStateException(jar + " has no version");
        }
        return name + " " + version.group(1) + ", Java " + Runtime.version().feature();
    }

    /** Runs the command line. It ends without shutdown hooks. */
    static void main(Store store, String[] arguments) {
        try {
            String what = arguments.length > 0 ? arguments[0] : "";
            if (what.equals("check") && arguments.length == 1) {
                serve(store);
            } else if (what.equals("version") && arguments.length == 1) {
                System.out.println(store.version());
            } else if (what.equals("make") && arguments.length == 2) {
                store.make(arguments[1]);
            } else if (what.equals("write") && arguments.length == 2) {
                store.write(arguments[1]);
            } else {
                throw new IllegalArgumentException("expected write, make, check or version");
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static final Pattern DIRECTORY = Pattern.compile("\"directory\": \"([^\"\\\\]*)\"");
    private static final Pattern LAST = Pattern.compile("\"(\\d+)\"\\]");

    private static void serve(Store store) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Matcher directory = DIRECTORY.matcher(line);
            Matcher last = LAST.matcher(line);
            if (!directory.find()) {
                throw new IllegalArgumentException("expected a directory, found " + line);
            }
            List<String> broken = broken(store, Path.of(directory.group(1)), last.find() ? Integer.parseInt(last.group(1)) : 0);
            System.out.println("{\"broken\": [" + String.join(", ", broken) + "]}");
            System.out.flush();
        }
    }

    private static List<String> broken(Store store, Path directory, int promised) {
        List<String> broken = new ArrayList<>();
        try {
            int[] found = store.find(directory);
            for (int number = 1; number <= COUNT; number++) {
                if (found[number - 1] != 0 && found[number - 1] != ROWS) {
                    broken.add(quoted("part: of transaction " + number + " there are " + found[number - 1] + " rows of " + ROWS));
                }
            }
            for (int number = 1; number <= promised; number++) {
                if (found[number - 1] == 0) {
                    broken.add(quoted("lost: transaction " + number + " was promised"));
                }
            }
        } catch (Wrong error) {
            broken.add(quoted("wrong: " + error.getMessage()));
        } catch (Throwable error) {
            String message = String.valueOf(error.getMessage()).replace(directory.toString(), ".").lines().findFirst().orElse("");
            broken.add(quoted("unusable: " + error.getClass().getSimpleName() + ": " + message));
        }
        return broken;
    }

    private static String quoted(String text) {
        return "\"" + text.replaceAll("[\\\\\"]", "'").replaceAll("\\p{Cntrl}", " ") + "\"";
    }
}
