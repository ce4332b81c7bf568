import java.nio.file.Path;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/** H2's MVStore: `sync` after each commit, or `commit` alone. */
final class Program implements Transactions.Store {
    private static final String FILE = "db.mv";

    private static MVStore open(Path directory) {
        // Without the thread that commits by itself, so that transactions are committed by us alone.
        return new MVStore.Builder().fileName(directory.resolve(FILE).toString()).autoCommitDisabled().open();
    }

    public void make(String setting) {
        try (MVStore store = open(Path.of(""))) {
            store.commit();
            store.sync();
        }
    }

    public void write(String setting) {
        MVStore store = open(Path.of(""));
        MVMap<String, byte[]> rows = store.openMap("rows");
        for (int transaction = 1; transaction <= Transactions.COUNT; transaction++) {
            for (int row = 0; row < Transactions.ROWS; row++) {
                rows.put(Transactions.key(transaction, row), Transactions.value(transaction));
            }
            store.commit();
            if (setting.equals("sync")) {
                store.sync();
            }
            Transactions.promise(transaction);
        }
    }

    public int[] find(Path directory) throws Exception {
        int[] found = new int[Transactions.COUNT];
        MVStore store = open(directory);
        try {
            MVMap<String, byte[]> rows = store.openMap("rows");
            for (var entry : rows.entrySet()) {
                found[Transactions.transaction(entry.getValue()) - 1]++;
            }
            store.openMap("others").put("more", new byte[0]);
            store.commit();
        } finally {
            store.closeImmediately();
        }
        return found;
    }

    public String version() {
        return Transactions.versionOf("H2 MVStore", MVStore.class);
    }

    public static void main(String[] arguments) {
        Transactions.main(new Program(), arguments);
    }
}
