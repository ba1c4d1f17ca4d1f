package pocketmq.peers;

import java.io.File;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
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

/**
 * Does one measurement with RocketMQ's DefaultMessageStore, as measure.go does with the others, and prints the same
 * JSON. Before it the same workload runs in another directory, half as long, so that the virtual machine has compiled it.
 *
 * Arguments: directory, file of noise, "put" or "read", "sync" or "async", bytes of a body, writers, messages in a put
 * or a read, messages, milliseconds at most.
 */
public final class Measure {
    private static final String TOPIC = "bench";
    private static final int BODY_LENGTH_AT = 84; // in a record: the length of the body, and then the body
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    private final byte[] noise;
    private final boolean read;
    private final boolean sync;
    private final int size;
    private final int writers;
    private final int batch;
    private DefaultMessageStore store;

    private Measure(String[] args) throws Exception {
        noise = Files.readAllBytes(Path.of(args[1]));
        read = args[2].equals("read");
        sync = args[3].equals("sync");
        size = Integer.parseInt(args[4]);
        writers = Integer.parseInt(args[5]);
        batch = Integer.parseInt(args[6]);
    }

    public static void main(String[] args) throws Exception {
        Measure m = new Measure(args);
        long messages = Long.parseLong(args[7]);
        long limit = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(args[8]));
        m.run(args[0] + File.separator + "warm", messages / 2, limit / 2);
        String result = m.run(args[0] + File.separator + "store", messages, limit);
        System.out.println(result);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** run does the workload in a new store, reads everything back, and removes the store. */
    private String run(String dir, long messages, long limit) throws Exception {
        open(dir);
        long put;
        long count;
        long took;
        long drained;
        if (read) {
            put = putAll(1, 100, messages, limit);
            drain();
            long start = System.nanoTime();
            count = readAll(put, true, limit);
            took = System.nanoTime() - start;
            drained = took;
        } else {
            long start = System.nanoTime();
            put = putAll(writers, batch, messages, limit);
            took = System.nanoTime() - start;
            drain();
            drained = System.nanoTime() - start;
            count = readAll(put, writers == 1, Long.MAX_VALUE);
            if (count != put) {
                throw new IllegalStateException(count + " messages were read, " + put + " were put");
            }
        }
        store.shutdown();
        store.destroy();
        return String.format("{\"Messages\":%d,\"Took\":%d,\"Drained\":%d}", count, took, drained);
    }

    private void open(String dir) throws Exception {
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

    /** putAll puts messages from number 0 on, fewer when time is over, and returns how many it put. */
    private long putAll(int threads, int together, long messages, long limit) throws Exception {
        AtomicLong next = new AtomicLong();
        AtomicLong done = new AtomicLong();
        long start = System.nanoTime();
        List<Throwable> failures = new ArrayList<>();
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread t = new Thread(() -> {
                try {
                    while (System.nanoTime() - start < limit) {
                        long first = next.getAndAdd(together);
                        if (first >= messages) {
                            return;
                        }
                        put(first, together);
                        done.addAndGet(together);
                    }
                } catch (Throwable e) {
                    synchronized (failures) {
                        failures.add(e);
                    }
                }
            });
            t.start();
            all.add(t);
        }
        for (Thread t : all) {
            t.join();
        }
        if (!failures.isEmpty()) {
            throw new IllegalStateException(failures.get(0));
        }
        return done.get();
    }

    private void put(long first, int together) {
        PutMessageResult result;
        do {
            result = together == 1 ? store.putMessage(message(first)) : store.putMessages(messages(first, together));
        } while (result.getPutMessageStatus() == PutMessageStatus.OS_PAGECACHE_BUSY); // a producer tries again
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException(result.getPutMessageStatus().name());
        }
    }

    private MessageExtBrokerInner message(long number) {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        fill(m);
        m.setBody(body(number));
        m.setPropertiesString("");
        return m;
    }

    private MessageExtBatch messages(long first, int together) {
        List<Message> elements = new ArrayList<>(together);
        for (int i = 0; i < together; i++) {
            elements.add(new Message(TOPIC, body(first + i)));
        }
        MessageExtBatch m = new MessageExtBatch();
        fill(m);
        m.setBody(MessageDecoder.encodeMessages(elements));
        return m;
    }

    private static void fill(MessageExt m) {
        m.setTopic(TOPIC);
        m.setQueueId(0);
        m.setBornTimestamp(System.currentTimeMillis());
        m.setBornHost(HOST);
        m.setStoreHost(HOST);
    }

    private int noiseAt(long number) {
        return (int) (number * size % (noise.length - size));
    }

    /** body is the body of a message: its number, and noise. */
    private byte[] body(long number) {
        byte[] b = new byte[size];
        System.arraycopy(noise, noiseAt(number), b, 0, size);
        ByteBuffer.wrap(b).putLong(0, number);
        return b;
    }

    private void drain() {
        while (store.dispatchBehindBytes() > 0) {
            LockSupport.parkNanos(50_000);
        }
    }

    /** readAll reads and compares everything, less when time is over, and returns how many messages it was. */
    private long readAll(long put, boolean ordered, long limit) {
        long start = System.nanoTime();
        BitSet seen = new BitSet();
        long count = 0;
        while (count < put && System.nanoTime() - start < limit) {
            GetMessageResult r = store.getMessage("bench", TOPIC, 0, count, 32, null);
            if (r.getStatus() != GetMessageStatus.FOUND) {
                throw new IllegalStateException("offset " + count + ": " + r.getStatus());
            }
            for (SelectMappedBufferResult record : r.getMessageMapedList()) {
                long number = check(record.getByteBuffer(), put);
                if (ordered && number != count || seen.get((int) number)) {
                    throw new IllegalStateException("message number " + number + " was read, it is the turn of " + count);
                }
                seen.set((int) number);
                count++;
            }
            r.release();
        }
        return count;
    }

    private long check(ByteBuffer record, long put) {
        int at = BODY_LENGTH_AT + 4;
        long number = record.getLong(at);
        if (record.getInt(BODY_LENGTH_AT) != size || number < 0 || number >= put) {
            throw new IllegalStateException("message number " + number + " of " + record.getInt(BODY_LENGTH_AT) + " bytes was read");
        }
        ByteBuffer body = record.slice(at + 8, size - 8);
        if (!body.equals(ByteBuffer.wrap(noise, noiseAt(number) + 8, size - 8))) {
            throw new IllegalStateException("message number " + number + " was read with another body");
        }
        return number;
    }
}
