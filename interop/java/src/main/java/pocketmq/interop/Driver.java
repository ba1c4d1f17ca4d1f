package pocketmq.interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Lets another process use RocketMQ's DefaultMessageStore. Each line of standard input is a command, a JSON object with
 * an id, the name of a store, an operation and its arguments; each line of standard output is the reply to one of them.
 * The commands of one store are done in their order, those of different stores side by side.
 *
 * The one argument is the directory for the stores' log files.
 */
public final class Driver {
    private static final PrintStream REPLIES =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    private Driver() {
    }

    public static void main(String[] args) throws IOException {
        System.setOut(System.err); // RocketMQ prints now and then
        StoreLog.install(args[0]);
        Map<String, Worker> workers = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JSONObject command = JSON.parseObject(line);
            workers.computeIfAbsent(command.getString("store"), Worker::new).submit(command);
        }
        Runtime.getRuntime().halt(0); // whoever wanted the stores closed has said so
    }

    /** Worker does the commands of one store in a thread of its own. */
    private static final class Worker {
        private final StorePeer peer = new StorePeer();
        private final ExecutorService thread;

        Worker(String name) {
            thread = Executors.newSingleThreadExecutor(task -> new Thread(() -> {
                StoreLog.own(name);
                task.run();
            }, "driver-" + name));
        }

        void submit(JSONObject command) {
            thread.execute(() -> {
                JSONObject reply = new JSONObject();
                reply.put("id", command.getLong("id"));
                try {
                    reply.put("result", peer.execute(command));
                } catch (Throwable e) {
                    reply.put("error", e.toString());
                    StoreLog.write("DRIVER", "driver", command.getString("op"), e);
                }
                String line = JSON.toJSONString(reply, SerializerFeature.DisableCircularReferenceDetect);
                synchronized (REPLIES) {
                    REPLIES.print(line + "\n");
                    REPLIES.flush();
                }
            });
        }
    }
}
