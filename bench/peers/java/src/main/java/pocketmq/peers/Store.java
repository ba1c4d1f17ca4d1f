package pocketmq.peers;

import java.nio.ByteBuffer;
import java.util.List;

/** Store is what is measured. Several threads may put at the same time. */
interface Store {
    /** put stores a body, which is the caller's again on return. */
    void put(byte[] body) throws Exception;

    /** putBatch stores the bodies as one batch. */
    void putBatch(List<byte[]> bodies) throws Exception;

    /** drain returns when all that was put can be read. */
    void drain();

    /** readAll gives the reader each body there is, oldest first, so many at a time where the store can do that. */
    void readAll(int batch, Reader reader);

    void close() throws Exception;

    /** Reader takes a body, which is valid during the call, and returns whether it wants more. */
    interface Reader {
        boolean take(ByteBuffer body);
    }
}
