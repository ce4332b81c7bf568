import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS on loopback, in a directory that is named: prints its URI, and ends with its standard input. */
public final class SmallCluster {
    private SmallCluster() {
    }

    public static void main(String[] arguments) throws Exception {
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0]))
                .numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("hdfs://127.0.0.1:" + cluster.getNameNodePort());
        while (System.in.read() >= 0) {
            continue;
        }
        cluster.shutdown();
        System.exit(0);  // threads of its own go on
    }
}
