import java.nio.file.Path;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.CheckIndex;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.BytesRef;

/** Lucene: `commit` after the documents of each transaction, or `flush` alone. */
final class Program implements Transactions.Store {
    private static final String INDEX = "index";

    private static IndexWriter writer(FSDirectory directory) throws Exception {
        // Without its threads that merge, so that the order of the writes is ours.
        IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer());
        return new IndexWriter(directory, config.setMergeScheduler(new SerialMergeScheduler()));
    }

    public void make(String setting) throws Exception {
        try (FSDirectory directory = FSDirectory.open(Path.of(INDEX)); IndexWriter writer = writer(directory)) {
            writer.commit();
        }
    }

    public void write(String setting) throws Exception {
        IndexWriter writer = writer(FSDirectory.open(Path.of(INDEX)));
        for (int transaction = 1; transaction <= Transactions.COUNT; transaction++) {
            for (int row = 0; row < Transactions.ROWS; row++) {
                writer.addDocument(document(Transactions.key(transaction, row), Transactions.value(transaction)));
            }
            if (setting.equals("commit")) {
                writer.commit();
            } else {
                writer.flush();
            }
            Transactions.promise(transaction);
        }
        writer.commit();
    }

    private static Document document(String key, byte[] value) {
        Document document = new Document();
        document.add(new StringField("key", key, Field.Store.NO));
        document.add(new StoredField("value", value));
        return document;
    }

    public int[] find(Path place) throws Exception {
        int[] found = new int[Transactions.COUNT];
        try (FSDirectory directory = FSDirectory.open(place.resolve(INDEX))) {
            try (CheckIndex check = new CheckIndex(directory)) {
                if (!check.checkIndex().clean) {
                    throw new IllegalStateException("CheckIndex: not clean");
                }
            }
            try (DirectoryReader reader = DirectoryReader.open(directory)) {
                IndexSearcher searcher = new IndexSearcher(reader);
                for (int transaction = 1; transaction <= Transactions.COUNT; transaction++) {
                    for (int row = 0; row < Transactions.ROWS; row++) {
                        Term key = new Term("key", Transactions.key(transaction, row));
                        for (ScoreDoc each : searcher.search(new TermQuery(key), Transactions.ROWS).scoreDocs) {
                            var value = searcher.storedFields().document(each.doc).getBinaryValue("value");
                            found[Transactions.transaction(BytesRef.deepCopyOf(value).bytes) - 1]++;
                        }
                    }
                }
            }
            try (IndexWriter writer = writer(directory)) {
                writer.addDocument(document("more", new byte[0]));
                writer.commit();
            }
        }
        return found;
    }

    public String version() {
        return Transactions.versionOf("Lucene", IndexWriter.class);
    }

    public static void main(String[] arguments) {
        Transactions.main(new Program(), arguments);
    }
}
