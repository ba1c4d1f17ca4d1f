package pocketmq.peers;

import java.nio.ByteBuffer;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.wire.DocumentContext;

/** Chronicle is Chronicle Queue with its defaults. */
final class Chronicle implements Store {
    private final ChronicleQueue queue;
    private final ThreadLocal<ExcerptAppender> appenders; // one thread may use an appender

    Chronicle(String dir) {
        queue = ChronicleQueue.single(dir);
        appenders = ThreadLocal.withInitial(queue::createAppender);
    }

    @Override
    public void put(byte[] body) {
        try (DocumentContext document = appenders.get().writingDocument()) {
            document.wire().bytes().write(body);
        }
    }

    @Override
    public void putBatch(List<byte[]> bodies) {
        throw new UnsupportedOperationException("Chronicle Queue has no batch");
    }

    @Override
    public void drain() {
        // What was put can be read.
    }

    @Override
    public void readAll(int batch, Reader reader) {
        byte[] body = new byte[0];
        try (ExcerptTailer tailer = queue.createTailer()) {
            for (boolean more = true; more;) {
                try (DocumentContext document = tailer.readingDocument()) {
                    if (!document.isPresent()) {
                        return;
                    }
                    Bytes<?> bytes = document.wire().bytes();
                    int size = (int) bytes.readRemaining();
                    if (body.length != size) {
                        body = new byte[size];
                    }
                    bytes.read(body);
                    more = reader.take(ByteBuffer.wrap(body));
                }
            }
        }
    }

    @Override
    public void close() {
        queue.close();
    }
}
