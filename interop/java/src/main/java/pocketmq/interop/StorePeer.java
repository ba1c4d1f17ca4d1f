package pocketmq.interop;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Map;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** StorePeer does the commands of one store. */
final class StorePeer {
    private static final BrokerStatsManager STATISTICS = new BrokerStatsManager("interop", false);

    private DefaultMessageStore store;

    Object execute(JSONObject command) throws Exception {
        switch (command.getString("op")) {
            case "open":
                return open(command.getJSONObject("open"));
            case "put":
                return put(command.getJSONObject("message"));
            case "list":
                return list();
            case "ask":
                return ask(command.getJSONArray("questions"));
            case "close":
                store.shutdown();
                return null;
            default:
                throw new IllegalArgumentException("no operation " + command.getString("op"));
        }
    }

    private Object open(JSONObject args) throws Exception {
        String dir = args.getString("dir");
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(dir);
        config.setStorePathCommitLog(dir + File.separator + "commitlog");
        config.setMappedFileSizeCommitLog(args.getIntValue("segmentSize"));
        config.setMappedFileSizeConsumeQueue(args.getIntValue("queueFileSize"));
        config.setMaxHashSlotNum(args.getIntValue("indexSlots"));
        config.setMaxIndexNum(args.getIntValue("indexEntries"));
        config.setFlushDiskType(args.getBooleanValue("sync") ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        config.setHaListenPort(0); // any: nobody connects
        DefaultMessageStore opening = new DefaultMessageStore(config, STATISTICS,
            (topic, queueId, offset, tagsCode, time, bitMap, properties) -> { }, new BrokerConfig()) {
            @Override
            public void handleScheduleMessageService(BrokerRole role) {
                // not started: no message of its own shall be among those that were sent
            }
        };
        if (!opening.load()) {
            throw new IllegalStateException("load failed");
        }
        try {
            opening.start();
        } catch (Exception e) {
            opening.shutdown(); // as a broker's shutdown hook does
            throw e;
        }
        store = opening;
        return null;
    }

    private Object put(JSONObject m) throws Exception {
        if (m.getBooleanValue("batch")) {
            MessageExtBatch batch = new MessageExtBatch();
            fill(batch, m);
            return placement(store.putMessages(batch));
        }
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        fill(message, m);
        message.setPropertiesString(properties(m));
        return placement(store.putMessage(message));
    }

    private static String properties(JSONObject m) {
        String text = m.getString("properties");
        return text == null ? "" : text;
    }

    private static void fill(MessageExt message, JSONObject m) throws UnknownHostException {
        String body = m.getString("body");
        message.setBody(body == null ? new byte[0] : Base64.getDecoder().decode(body));
        message.setTopic(m.getString("topic"));
        message.setQueueId(m.getIntValue("queueId"));
        message.setFlag(m.getIntValue("flag"));
        message.setSysFlag(m.getIntValue("sysFlag"));
        message.setBornTimestamp(m.getLongValue("bornTime"));
        message.setBornHost(host(m.getString("bornHost")));
        message.setStoreHost(host(m.getString("storeHost")));
        message.setReconsumeTimes(m.getIntValue("reconsumeTimes"));
        message.setPreparedTransactionOffset(m.getLongValue("prepared"));
        MessageAccessor.setProperties(message, MessageDecoder.string2messageProperties(properties(m)));
    }

    /** host reads an address in hexadecimal digits, a colon and a port. */
    private static InetSocketAddress host(String text) throws UnknownHostException {
        String[] parts = text.split(":");
        return new InetSocketAddress(InetAddress.getByAddress(HexFormat.of().parseHex(parts[0])), Integer.parseInt(parts[1]));
    }

    private static JSONObject placement(PutMessageResult result) {
        JSONObject p = new JSONObject();
        p.put("status", result.getPutMessageStatus().name());
        AppendMessageResult append = result.getAppendMessageResult();
        if (append != null) {
            p.put("append", append.getStatus().name());
            p.put("logOffset", append.getWroteOffset());
            p.put("bytes", append.getWroteBytes());
            p.put("queueOffset", append.getLogicsOffset());
            p.put("storeTime", append.getStoreTimestamp());
            p.put("id", append.getMsgId());
        }
        return p;
    }

    /** dispatched returns when all that was put can be read. */
    private void dispatched() throws InterruptedException {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }

    private JSONObject list() throws InterruptedException {
        dispatched();
        JSONArray queues = new JSONArray();
        for (Map<Integer, ConsumeQueue> topic : store.getConsumeQueueTable().values()) {
            for (ConsumeQueue queue : topic.values()) {
                JSONObject q = new JSONObject();
                q.put("topic", queue.getTopic());
                q.put("queueId", queue.getQueueId());
                q.put("min", store.getMinOffsetInQueue(queue.getTopic(), queue.getQueueId()));
                q.put("max", store.getMaxOffsetInQueue(queue.getTopic(), queue.getQueueId()));
                queues.add(q);
            }
        }
        JSONObject all = new JSONObject();
        all.put("minLog", store.getMinPhyOffset());
        all.put("maxLog", store.getMaxPhyOffset());
        all.put("queues", queues);
        return all;
    }

    private JSONArray ask(JSONArray questions) throws Exception {
        dispatched();
        Answers answers = new Answers(store);
        JSONArray all = new JSONArray();
        for (int i = 0; i < questions.size(); i++) {
            all.add(answers.answer(questions.getJSONObject(i)));
        }
        return all;
    }
}
