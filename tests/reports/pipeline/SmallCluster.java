import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/**
 * HDFS on loopback, in a directory that is named. Prints the addresses of its name nodes, and ends with its standard input.
 * Started with "pair", it has two name nodes: with a line of input the first is killed, and the second takes over.
 */
public final class SmallCluster {
    private SmallCluster() {
    }

    public static void main(String[] arguments) throws Exception {
        boolean isPair = arguments.length > 1 && arguments[1].equals("pair");
        MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0]));
        if (isPair) {
            builder.nnTopology(MiniDFSNNTopology.simpleHATopology());
        }
        MiniDFSCluster cluster = builder.numDataNodes(1).build();
        if (isPair) {
            cluster.transitionToActive(0);
        }
        cluster.waitActive();
        StringBuilder addresses = new StringBuilder();
        for (int node = 0; node < cluster.getNumNameNodes(); node++) {
            addresses.append(" 127.0.0.1:").append(cluster.getNameNodePort(node));
        }
        System.out.println(addresses.substring(1));
        for (int read = System.in.read(); read >= 0; read = System.in.read()) {
            if (read == '\n') {
                cluster.shutdownNameNode(0);
                cluster.transitionToActive(1);
                System.out.println("taken over");
            }
        }
        cluster.shutdown();
        System.exit(0);  // threads of its own go on
    }
}
