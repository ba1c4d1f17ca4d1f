package pocketmq.peers;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;

/**
 * Does one measurement with a store in Java, as measure.go does with the others, and prints the same JSON. Before it the
 * same workload runs in another directory, half as long, so that the virtual machine has compiled it.
 *
 * Arguments: store, directory, file of noise, what to do, "sync" or "async", bytes of a body, writers, messages in a put
 * or a read, messages, milliseconds at most.
 *
 * What to do: "put" or "read"; for the test that kills it "hold", which puts messages, tells of each, and waits;
 * then "count", which reads what is there and prints how many messages it is.
 */
public final class Measure {
    private final String name;
    private final byte[] noise;
    private final boolean read;
    private final boolean sync;
    private final int size;
    private final int writers;
    private final int batch;

    private Measure(String[] args) throws IOException {
        name = args[0];
        noise = Files.readAllBytes(Path.of(args[2]));
        read = args[3].equals("read");
        sync = args[4].equals("sync");
        size = Integer.parseInt(args[5]);
        writers = Integer.parseInt(args[6]);
        batch = Integer.parseInt(args[7]);
    }

    public static void main(String[] args) throws Exception {
        Measure m = new Measure(args);
        String dir = args[1] + File.separator + "store";
        long messages = Long.parseLong(args[8]);
        long limit = Long.parseLong(args[9]);
        switch (args[3]) {
            case "hold":
                m.hold(dir, messages);
                break;
            case "count":
                System.out.println(m.count(dir, messages));
                break;
            default:
                String warm = args[1] + File.separator + "warm";
                m.run(warm, Math.max(1, messages / 2), limit / 2);
                remove(Path.of(warm));
                System.out.println(m.run(dir, messages, limit));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private Store open(String dir) throws Exception {
        return name.equals("RocketMQ") ? new RocketMQ(dir, sync) : new Chronicle(dir);
    }

    /** run does the workload in a new store, and reads everything back. */
    private String run(String dir, long messages, long limit) throws Exception {
        Store store = open(dir);
        Latencies latencies = new Latencies();
        Check check;
        long took;
        long drained;
        if (read) {
            long put = putAll(store, 1, name.equals("RocketMQ") ? 100 : 1, messages, limit, latencies);
            store.drain();
            Limit end = new Limit(limit);
            check = new Check(put, true, end);
            long start = System.nanoTime();
            store.readAll(batch, check);
            took = System.nanoTime() - start;
            drained = took;
            end.cancel();
        } else {
            long start = System.nanoTime();
            long put = putAll(store, writers, batch, messages, limit, latencies);
            took = System.nanoTime() - start;
            store.drain();
            drained = System.nanoTime() - start;
            check = new Check(put, writers == 1, null);
            store.readAll(32, check);
        }
        check.complete();
        store.close();
        return String.format("{\"Messages\":%d,\"Took\":%d,\"Drained\":%d,\"P50\":%d,\"P99\":%d}",
            check.count, took, drained, read ? 0 : latencies.at(50), read ? 0 : latencies.at(99));
    }

    private void hold(String dir, long messages) throws Exception {
        Store store = open(dir);
        for (long n = 0; n < messages; n++) {
            byte[] body = new byte[size];
            fill(body, n);
            store.put(body);
            System.out.println("put");
        }
        Thread.sleep(Long.MAX_VALUE);
    }

    private long count(String dir, long put) throws Exception {
        Store store = open(dir);
        store.drain();
        Check check = new Check(put, true, null);
        store.readAll(32, check);
        store.close();
        return check.count;
    }

    private static void remove(Path dir) throws IOException {
        try (Stream<Path> all = Files.walk(dir)) {
            for (Path path : (Iterable<Path>) all.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }

    /** putAll puts messages from number 0 on, fewer when time is over, and returns how many it put. */
    private long putAll(Store store, int threads, int together, long messages, long limit, Latencies latencies) throws Exception {
        AtomicLong next = new AtomicLong();
        AtomicLong done = new AtomicLong();
        Limit end = new Limit(limit);
        List<Throwable> failures = new ArrayList<>();
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread t = new Thread(() -> {
                try {
                    Latencies mine = new Latencies();
                    List<byte[]> bodies = new ArrayList<>();
                    for (int b = 0; b < together; b++) {
                        bodies.add(new byte[size]);
                    }
                    while (!end.over) {
                        long first = next.getAndAdd(together);
                        if (first >= messages) {
                            break;
                        }
                        put(store, bodies, first, mine);
                        done.addAndGet(together);
                    }
                    latencies.add(mine);
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
        end.cancel();
        if (!failures.isEmpty()) {
            throw new IllegalStateException(failures.get(0));
        }
        return done.get();
    }

    /** put measures how long it took where puts are synced: else that would be a part of what they take. */
    private void put(Store store, List<byte[]> bodies, long first, Latencies latencies) throws Exception {
        for (int i = 0; i < bodies.size(); i++) {
            fill(bodies.get(i), first + i);
        }
        long start = sync ? System.nanoTime() : 0;
        if (bodies.size() == 1) {
            store.put(bodies.get(0));
        } else {
            store.putBatch(bodies);
        }
        if (sync) {
            latencies.add(System.nanoTime() - start);
        }
    }

    private int noiseAt(long number) {
        return (int) (number * size % (noise.length - size));
    }

    /** fill makes the body of a message: its number, and noise. */
    private void fill(byte[] body, long number) {
        System.arraycopy(noise, noiseAt(number), body, 0, size);
        ByteBuffer.wrap(body).putLong(0, number);
    }

    /** Check compares what is read with what was put, until time is over. */
    private final class Check implements Store.Reader {
        private final long put;
        private final boolean ordered;
        private final Limit limit; // null: none
        private final BitSet seen = new BitSet();
        private long count;
        private boolean over;

        Check(long put, boolean ordered, Limit limit) {
            this.put = put;
            this.ordered = ordered;
            this.limit = limit;
        }

        @Override
        public boolean take(ByteBuffer body) {
            long number = body.remaining() < 8 ? -1 : body.getLong(body.position());
            if (body.remaining() != size || number < 0 || number >= put) {
                throw new IllegalStateException("message number " + number + " of " + body.remaining() + " bytes was read");
            }
            if (!body.slice(body.position() + 8, size - 8).equals(ByteBuffer.wrap(noise, noiseAt(number) + 8, size - 8))) {
                throw new IllegalStateException("message number " + number + " was read with another body");
            }
            if (ordered && number != count || seen.get((int) number)) {
                throw new IllegalStateException("message number " + number + " was read, it is the turn of " + count);
            }
            seen.set((int) number);
            count++;
            over = limit != null && limit.over;
            return !over;
        }

        /** complete wants everything read that was put, unless time was over. */
        void complete() {
            if (!over && count != put) {
                throw new IllegalStateException(count + " messages were read, " + put + " were put");
            }
        }
    }

    /** Limit tells when time is over. */
    private static final class Limit {
        private final Timer timer = new Timer(true);
        private volatile boolean over;

        Limit(long milliseconds) {
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    over = true;
                }
            }, milliseconds);
        }

        void cancel() {
            timer.cancel();
        }
    }

    /** Latencies are those of single puts, in nanoseconds. */
    private static final class Latencies {
        private long[] values = new long[1024];
        private int count;

        void add(long value) {
            if (count == values.length) {
                values = Arrays.copyOf(values, 2 * count);
            }
            values[count++] = value;
        }

        synchronized void add(Latencies other) {
            for (int i = 0; i < other.count; i++) {
                add(other.values[i]);
            }
        }

        /** at returns what so many percent of the puts did not exceed; 0 if there are none. */
        long at(int percent) {
            if (count == 0) {
                return 0;
            }
            long[] sorted = Arrays.copyOf(values, count);
            Arrays.sort(sorted);
            return sorted[(int) ((long) (count - 1) * percent / 100)];
        }
    }
}
