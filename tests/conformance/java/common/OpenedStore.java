import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * One directory, loaded and started by the real store, and all that its users can see of it.
 *
 * Command: root, config, startMs (how long a start may take), times (in ms, ascending: asked of each queue; keys are
 * looked up between the second and the last but one). The directory is used up.
 */
final class OpenedStore {
    private static final int PULLED_MAX = 32;
    private static final int FOUND_MAX = 1000;
    private final DefaultMessageStore store;
    private final long startMs;
    private final List<Long> times = new ArrayList<>();
    private boolean loaded;
    private boolean started;

    OpenedStore(JSONObject command) throws Exception {
        store = Settings.store(command, false);
        startMs = command.getLongValue("startMs");
        JSONArray asked = command.getJSONArray("times");
        for (int number = 0; number < asked.size(); number++) {
            times.add(asked.getLong(number));
        }
    }

    void observe(JSONObject answer) throws Throwable {
        loaded = store.load();
        answer.put("load", loaded);
        if (!loaded) {
            return;
        }
        answer.put("maxPhyOffsetAfterLoad", store.getMaxPhyOffset());
        started = start();
        answer.put("start", started);
        if (!started) {
            answer.put("dispatchBehindBytes", store.dispatchBehindBytes());
            return;
        }
        answer.put("minPhyOffset", store.getMinPhyOffset());
        answer.put("maxPhyOffset", store.getMaxPhyOffset());
        Set<List<String>> keys = new LinkedHashSet<>();
        answer.put("records", records(keys));
        answer.put("queues", queues());
        boolean indexed = store.getMessageStoreConfig().isMessageIndexEnable();
        answer.put("queries", indexed ? queries(keys, 0, Long.MAX_VALUE) : new JSONArray());
        answer.put("windowed", indexed && !times.isEmpty()
            ? queries(keys, times.get(1), times.get(times.size() - 2)) : new JSONArray());
        answer.put("delayOffsets", Version.progress(store));
    }

    /** Starts the store; false if that takes too long, as it does where dispatch can never catch up. */
    private boolean start() throws Throwable {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            try {
                store.start();
            } catch (Throwable thrown) {
                failure.set(thrown);
            }
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(startMs);
        if (failure.get() != null) {
            throw failure.get();
        }
        return !thread.isAlive();
    }

    /** Walks over the log: each record as the store's own look-up gives it. */
    private JSONArray records(Set<List<String>> keys) throws Exception {
        JSONArray found = new JSONArray();
        long at = store.getMinPhyOffset();
        while (at < store.getMaxPhyOffset()) {
            SelectMappedBufferResult rest = store.getCommitLogData(at);
            if (rest == null || rest.getSize() <= 0) {
                break;
            }
            long next = at + rest.getSize(); // without a record, the next file
            ByteBuffer buffer = rest.getByteBuffer();
            try {
                while (buffer.remaining() > 0) {
                    long offset = at + buffer.position();
                    DispatchRequest request = Version.checked(store, buffer);
                    if (!request.isSuccess() || request.getMsgSize() <= 0) {
                        if (request.isSuccess()) { // a blank: the next file begins where this one is full
                            long size = store.getMessageStoreConfig().getMappedFileSizeCommitLog();
                            next = offset - offset % size + size;
                        }
                        break;
                    }
                    found.add(record(offset, request, keys));
                }
            } finally {
                rest.release();
            }
            at = next;
        }
        return found;
    }

    private JSONArray record(long offset, DispatchRequest request, Set<List<String>> keys) throws Exception {
        MessageExt message = store.lookMessageByOffset(offset);
        JSONArray fields = new JSONArray();
        fields.add(offset);
        fields.add(request.getMsgSize());
        if (message == null) {
            return fields;
        }
        fields.add(message.getMsgId());
        fields.add(message.getTopic());
        fields.add(message.getQueueId());
        fields.add(message.getQueueOffset());
        fields.add(message.getCommitLogOffset());
        fields.add(message.getSysFlag());
        fields.add(message.getFlag());
        fields.add(message.getBornTimestamp());
        fields.add(message.getStoreTimestamp());
        fields.add(host((InetSocketAddress) message.getBornHost()));
        fields.add(host((InetSocketAddress) message.getStoreHost()));
        fields.add(message.getReconsumeTimes());
        fields.add(message.getPreparedTransactionOffset());
        fields.add(digest(message.getBody()));
        // A record without properties is decoded to none at all instead of an empty map.
        fields.add(message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties()));
        String unique = message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
        if (unique != null) {
            keys.add(List.of(message.getTopic(), unique));
        }
        String spaced = message.getKeys();
        if (spaced != null) {
            for (String key : spaced.split(MessageConst.KEY_SEPARATOR)) {
                if (!key.isEmpty()) {
                    keys.add(List.of(message.getTopic(), key));
                }
            }
        }
        return fields;
    }

    private static String host(InetSocketAddress address) {
        return hex(address.getAddress().getAddress()) + ":" + address.getPort();
    }

    private static String digest(byte[] body) throws Exception {
        return hex(MessageDigest.getInstance("SHA-256").digest(body == null ? new byte[0] : body)).substring(0, 16);
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }

    private JSONArray queues() {
        List<ConsumeQueue> queues = new ArrayList<>();
        store.getConsumeQueueTable().values().forEach(each -> each.values().forEach(queue -> queues.add((ConsumeQueue) queue)));
        queues.sort(Comparator.comparing(ConsumeQueue::getTopic).thenComparing(ConsumeQueue::getQueueId));
        JSONArray found = new JSONArray();
        for (ConsumeQueue queue : queues) {
            long min = queue.getMinOffsetInQueue();
            long max = queue.getMaxOffsetInQueue();
            if (max <= 0) {
                continue; // an object without any file
            }
            JSONObject fields = new JSONObject(true);
            fields.put("topic", queue.getTopic());
            fields.put("queueId", queue.getQueueId());
            fields.put("minOffset", min);
            fields.put("maxOffset", max);
            fields.put("entries", entries(queue, min, max));
            fields.put("pulled", pulled(queue, min, max));
            JSONArray nearest = new JSONArray();
            for (long time : times) {
                JSONArray row = new JSONArray();
                row.add(time);
                row.add(nearest(queue, time));
                nearest.add(row);
            }
            fields.put("nearest", nearest);
            found.add(fields);
        }
        return found;
    }

    /** The queue offset of the message stored nearest to a time, -1 if the look-up throws. */
    private long nearest(ConsumeQueue queue, long time) {
        try {
            return store.getOffsetInQueueByTime(queue.getTopic(), queue.getQueueId(), time);
        } catch (RuntimeException thrown) {
            return -1;
        }
    }

    private JSONArray entries(ConsumeQueue queue, long min, long max) {
        JSONArray entries = new JSONArray();
        long at = min;
        while (at < max) {
            SelectMappedBufferResult rest = queue.getIndexBuffer(at);
            if (rest == null) {
                break;
            }
            ByteBuffer buffer = rest.getByteBuffer();
            for (; buffer.remaining() >= ConsumeQueue.CQ_STORE_UNIT_SIZE; at++) {
                JSONArray entry = new JSONArray();
                entry.add(buffer.getLong());
                entry.add(buffer.getInt());
                long tags = buffer.getLong();
                entry.add(queue.isExtAddr(tags) && queue.getExt(tags) != null ? queue.getExt(tags).getTagsCode() : tags);
                entries.add(entry);
            }
            rest.release();
        }
        return entries;
    }

    /** Pulls a queue from its first message to its last, as a consumer does: the phyOffset of each. */
    private JSONArray pulled(ConsumeQueue queue, long min, long max) {
        JSONArray found = new JSONArray();
        long at = min;
        while (at < max) {
            GetMessageResult result = store.getMessage("judge", queue.getTopic(), queue.getQueueId(), at, PULLED_MAX, null);
            for (SelectMappedBufferResult each : result.getMessageMapedList()) {
                ByteBuffer record = each.getByteBuffer();
                found.add(record.remaining() >= 36 ? record.getLong(28) : -1); // entries that are none give anything
            }
            result.release();
            if (result.getNextBeginOffset() <= at) {
                break;
            }
            at = result.getNextBeginOffset();
        }
        return found;
    }

    /** Looks each key up between two times: [topic, key, offsets in ascending order]. */
    private JSONArray queries(Set<List<String>> keys, long beginMs, long endMs) {
        JSONArray found = new JSONArray();
        for (List<String> key : keys) {
            QueryMessageResult result = store.queryMessage(key.get(0), key.get(1), FOUND_MAX, beginMs, endMs);
            JSONArray offsets = new JSONArray();
            for (ByteBuffer record : result.getMessageBufferList()) {
                offsets.add(record.getLong(28));
            }
            result.release();
            JSONArray row = new JSONArray();
            row.add(key.get(0));
            row.add(key.get(1));
            row.add(offsets);
            found.add(row);
        }
        return found;
    }

    /** Ends the store and removes its files, which also gives its maps back. */
    void discard() {
        if (started) {
            store.shutdown();
        }
        store.destroy();
    }
}
