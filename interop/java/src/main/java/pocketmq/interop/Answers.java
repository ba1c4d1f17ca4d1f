package pocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import org.apache.rocketmq.common.filter.FilterAPI;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;

/** Answers puts questions to a store. */
final class Answers {
    private final DefaultMessageStore store;
    private final MessageDigest sha256;

    Answers(DefaultMessageStore store) throws NoSuchAlgorithmException {
        this.store = store;
        this.sha256 = MessageDigest.getInstance("SHA-256");
    }

    JSONObject answer(JSONObject question) throws Exception {
        String topic = question.getString("topic");
        int queueId = question.getIntValue("queueId");
        long offset = question.getLongValue("offset");
        JSONObject a = new JSONObject();
        switch (question.getString("op")) {
            case "get":
                get(a, topic, queueId, offset, question);
                break;
            case "bounds":
                a.put("min", store.getMinOffsetInQueue(topic, queueId));
                a.put("max", store.getMaxOffsetInQueue(topic, queueId));
                break;
            case "unit":
                a.put("number", store.getCommitLogOffsetInQueue(topic, queueId, offset));
                a.put("time", store.getMessageStoreTimeStamp(topic, queueId, offset));
                break;
            case "earliest":
                a.put("time", store.getEarliestMessageTime(topic, queueId));
                break;
            case "byTime":
                a.put("number", store.getOffsetInQueueByTime(topic, queueId, question.getLongValue("time")));
                break;
            case "look":
                a.put("message", message(store.lookMessageByOffset(offset)));
                break;
            case "query":
                query(a, topic, question);
                break;
            default:
                throw new IllegalArgumentException("no question " + question.getString("op"));
        }
        return a;
    }

    private void get(JSONObject a, String topic, int queueId, long offset, JSONObject question) throws Exception {
        String tags = question.getString("tags");
        MessageFilter filter = tags == null ? null : new DefaultMessageFilter(FilterAPI.buildSubscriptionData(topic, tags));
        GetMessageResult result =
            store.getMessage("interop", topic, queueId, offset, question.getIntValue("maxNum"), filter);
        a.put("status", result.getStatus().name());
        a.put("next", result.getNextBeginOffset());
        a.put("min", result.getMinOffset());
        a.put("max", result.getMaxOffset());
        records(a, result.getMessageBufferList());
        result.release();
    }

    private void query(JSONObject a, String topic, JSONObject question) {
        QueryMessageResult result = store.queryMessage(topic, question.getString("key"), question.getIntValue("maxNum"),
            question.getLongValue("begin"), question.getLongValue("end"));
        records(a, result.getMessageBufferList());
        result.release();
    }

    /** records adds the place and the checksum of each record to an answer. */
    private void records(JSONObject a, List<ByteBuffer> buffers) {
        JSONArray all = new JSONArray();
        for (ByteBuffer buffer : buffers) {
            JSONObject record = new JSONObject();
            record.put("queueOffset", buffer.getLong(buffer.position() + 20));
            record.put("logOffset", buffer.getLong(buffer.position() + 28));
            record.put("size", buffer.remaining());
            sha256.update(buffer.duplicate());
            record.put("sha256", HexFormat.of().formatHex(sha256.digest()));
            all.add(record);
        }
        if (!all.isEmpty()) {
            a.put("records", all);
        }
    }

    private JSONObject message(MessageExt message) {
        if (message == null) {
            return null;
        }
        JSONObject m = new JSONObject();
        m.put("topic", message.getTopic());
        m.put("queueId", message.getQueueId());
        m.put("queueOffset", message.getQueueOffset());
        m.put("logOffset", message.getCommitLogOffset());
        m.put("size", message.getStoreSize());
        m.put("flag", message.getFlag());
        m.put("sysFlag", message.getSysFlag());
        m.put("bornTime", message.getBornTimestamp());
        m.put("bornHost", host(message.getBornHost()));
        m.put("storeTime", message.getStoreTimestamp());
        m.put("storeHost", host(message.getStoreHost()));
        m.put("reconsumeTimes", message.getReconsumeTimes());
        m.put("prepared", message.getPreparedTransactionOffset());
        m.put("bodyCRC", message.getBodyCRC());
        byte[] body = message.getBody();
        m.put("bodySHA256", HexFormat.of().formatHex(sha256.digest(body == null ? new byte[0] : body)));
        if (message.getProperties() != null && !message.getProperties().isEmpty()) {
            m.put("properties", new TreeMap<>(message.getProperties()));
        }
        return m;
    }

    private static String host(SocketAddress address) {
        InetSocketAddress inet = (InetSocketAddress) address;
        return HexFormat.of().formatHex(inet.getAddress().getAddress()) + ":" + inet.getPort();
    }
}
