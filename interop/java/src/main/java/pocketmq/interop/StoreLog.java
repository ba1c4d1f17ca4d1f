package pocketmq.interop;

import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.logging.InternalLogger;
import org.apache.rocketmq.logging.InternalLoggerFactory;

/**
 * RocketMQ's log, a file for each store. A line belongs to the store whose thread writes it, or whose thread started the
 * one that does; what belongs to none is in the file "other". A line is level, logger and text with tabs between them;
 * line breaks of the text are written as " | ".
 */
final class StoreLog {
    private static final InheritableThreadLocal<String> OWNER = new InheritableThreadLocal<>();
    private static final Map<String, Writer> FILES = new ConcurrentHashMap<>();
    private static String directory;

    private StoreLog() {
    }

    /** install must come before anything of RocketMQ's is loaded. */
    static void install(String dir) {
        directory = dir;
        Factory factory = new Factory();
        factory.register();
        InternalLoggerFactory.setCurrentLoggerType(factory.getLoggerType());
    }

    /** own makes what this thread logs the store's. */
    static void own(String store) {
        OWNER.set(store);
    }

    static void write(String level, String logger, String text, Throwable cause) {
        StringWriter line = new StringWriter();
        line.write(level + "\t" + logger + "\t" + text);
        if (cause != null) {
            line.write("\n");
            cause.printStackTrace(new PrintWriter(line, true));
        }
        String owner = OWNER.get() == null ? "other" : OWNER.get();
        Writer file = FILES.computeIfAbsent(owner, StoreLog::open);
        synchronized (file) {
            try {
                file.write(line.toString().strip().replace("\n", " | ") + "\n");
                file.flush();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private static Writer open(String store) {
        try {
            return new FileWriter(new File(directory, store + ".log"), StandardCharsets.UTF_8, true);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static final class Factory extends InternalLoggerFactory {
        void register() {
            doRegister();
        }

        @Override
        protected void shutdown() {
        }

        @Override
        protected InternalLogger getLoggerInstance(String name) {
            return new Logger(name);
        }

        @Override
        protected String getLoggerType() {
            return "interop";
        }
    }

    private record Logger(String name) implements InternalLogger {
        private void log(String level, String format, Object... args) {
            StringBuilder text = new StringBuilder();
            int used = 0;
            int from = 0;
            for (int at = format.indexOf("{}"); at >= 0 && used < args.length; at = format.indexOf("{}", from)) {
                text.append(format, from, at).append(args[used++]);
                from = at + 2;
            }
            text.append(format.substring(from));
            Throwable cause = null;
            for (Object rest : Arrays.asList(args).subList(used, args.length)) {
                if (rest instanceof Throwable thrown) {
                    cause = thrown;
                } else {
                    text.append(" ").append(rest);
                }
            }
            write(level, name, text.toString(), cause);
        }

        @Override
        public String getName() {
            return name;
        }

        @Override
        public void debug(String text) {
        }

        @Override
        public void debug(String format, Object arg) {
        }

        @Override
        public void debug(String format, Object arg1, Object arg2) {
        }

        @Override
        public void debug(String format, Object... args) {
        }

        @Override
        public void debug(String text, Throwable cause) {
        }

        @Override
        public void info(String text) {
            log("INFO", text);
        }

        @Override
        public void info(String format, Object arg) {
            log("INFO", format, arg);
        }

        @Override
        public void info(String format, Object arg1, Object arg2) {
            log("INFO", format, arg1, arg2);
        }

        @Override
        public void info(String format, Object... args) {
            log("INFO", format, args);
        }

        @Override
        public void info(String text, Throwable cause) {
            log("INFO", text, cause);
        }

        @Override
        public void warn(String text) {
            log("WARN", text);
        }

        @Override
        public void warn(String format, Object arg) {
            log("WARN", format, arg);
        }

        @Override
        public void warn(String format, Object... args) {
            log("WARN", format, args);
        }

        @Override
        public void warn(String format, Object arg1, Object arg2) {
            log("WARN", format, arg1, arg2);
        }

        @Override
        public void warn(String text, Throwable cause) {
            log("WARN", text, cause);
        }

        @Override
        public void error(String text) {
            log("ERROR", text);
        }

        @Override
        public void error(String format, Object arg) {
            log("ERROR", format, arg);
        }

        @Override
        public void error(String format, Object arg1, Object arg2) {
            log("ERROR", format, arg1, arg2);
        }

        @Override
        public void error(String format, Object... args) {
            log("ERROR", format, args);
        }

        @Override
        public void error(String text, Throwable cause) {
            log("ERROR", text, cause);
        }
    }
}
