package main

var chronicleQueue = peer{
	name:   "Chronicle Queue (Java)",
	module: "net.openhft:chronicle-queue:2026.4",
	gives: map[promise]string{
		processCrash: "always: documents are written into mapped files, and the system is left to write them; there is no sync",
	},
	notes: "`ChronicleQueue.single` in a Java process. Defaults (a file for each day, mapped 64 MB at a time). A put is a " +
		"`writingDocument` of the body, a read a `readingDocument` of the next, copied. Heap and warming as RocketMQ's store.",
	java: "Chronicle",
}
