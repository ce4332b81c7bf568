import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/** What every kind of client is given: where the name server is, its own name, its keys, whether it speaks TLS. */
final class Settings {
    private Settings() {}

    /** Signs each request, if keys are given. */
    static RPCHook hook(JSONObject given) {
        String accessKey = given.getString("accessKey");
        return accessKey == null
                ? null
                : new AclClientRPCHook(new SessionCredentials(accessKey, given.getString("secretKey")));
    }

    static void apply(ClientConfig client, JSONObject given) {
        client.setNamesrvAddr(given.getString("namesrv"));
        client.setInstanceName(given.getString("name")); // clients of one name share a connection
        client.setUseTLS(given.getBooleanValue("tls"));
        client.setVipChannelEnabled(given.getBooleanValue("vip")); // speaks to the broker's port - 2
        client.setPollNameServerInterval(1000); // topics appear while a test runs
        client.setHeartbeatBrokerInterval(2000); // as do consumers
    }
}
