package pocketmq.peers;

import java.io.File;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** RocketMQ is its DefaultMessageStore, without a broker. */
final class RocketMQ implements Store {
    private static final String TOPIC = "bench";
    private static final int BODY_LENGTH_AT = 84; // in a record: the length of the body, and then the body
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    private final DefaultMessageStore store;

    RocketMQ(String dir, boolean sync) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(dir);
        config.setStorePathCommitLog(dir + File.separator + "commitlog");
        config.setFlushDiskType(sync ? FlushDiskType.SYNC_FLUSH : FlushDiskType.ASYNC_FLUSH);
        config.setUseReentrantLockWhenPutMessage(sync);
        config.setHaListenPort(0); // any: nobody connects
        store = new DefaultMessageStore(config, new BrokerStatsManager("peers", false),
            (topic, queueId, offset, tagsCode, time, bitMap, properties) -> { }, new BrokerConfig());
        if (!store.load()) {
            throw new IllegalStateException("load failed");
        }
        store.start();
    }

    @Override
    public void put(byte[] body) {
        PutMessageResult result;
        do {
            MessageExtBrokerInner m = new MessageExtBrokerInner();
            fill(m);
            m.setBody(body);
            m.setPropertiesString("");
            result = store.putMessage(m);
        } while (again(result));
    }

    @Override
    public void putBatch(List<byte[]> bodies) {
        List<Message> elements = new ArrayList<>(bodies.size());
        for (byte[] body : bodies) {
            elements.add(new Message(TOPIC, body));
        }
        byte[] encoded = MessageDecoder.encodeMessages(elements);
        PutMessageResult result;
        do {
            MessageExtBatch m = new MessageExtBatch();
            fill(m);
            m.setBody(encoded);
            result = store.putMessages(m);
        } while (again(result));
    }

    /** again: a producer tries again where the store says that it is busy. */
    private static boolean again(PutMessageResult result) {
        if (result.getPutMessageStatus() == PutMessageStatus.OS_PAGECACHE_BUSY) {
            return true;
        }
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException(result.getPutMessageStatus().name());
        }
        return false;
    }

    private static void fill(MessageExt m) {
        m.setTopic(TOPIC);
        m.setQueueId(0);
        m.setBornTimestamp(System.currentTimeMillis());
        m.setBornHost(HOST);
        m.setStoreHost(HOST);
    }

    @Override
    public void drain() {
        while (store.dispatchBehindBytes() > 0) {
            LockSupport.parkNanos(50_000);
        }
    }

    @Override
    public void readAll(int batch, Reader reader) {
        long offset = 0;
        boolean more = true;
        while (more && offset < store.getMaxOffsetInQueue(TOPIC, 0)) {
            GetMessageResult r = store.getMessage("bench", TOPIC, 0, offset, batch, null);
            if (r.getStatus() != GetMessageStatus.FOUND) {
                throw new IllegalStateException("offset " + offset + ": " + r.getStatus());
            }
            for (SelectMappedBufferResult record : r.getMessageMapedList()) {
                ByteBuffer buffer = record.getByteBuffer();
                more = more && reader.take(buffer.slice(BODY_LENGTH_AT + 4, buffer.getInt(BODY_LENGTH_AT)));
            }
            offset = r.getNextBeginOffset();
            r.release();
        }
    }

    @Override
    public void close() {
        store.shutdown();
    }
}
