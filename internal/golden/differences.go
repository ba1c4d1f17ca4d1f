package golden

import "slices"

// Difference is one thing that PocketMQ does otherwise than RocketMQ 4.9.3.
type Difference struct {
	ID       string // F and a number: a known fault of RocketMQ 4.9.3; G and a name: found in the recorded stores
	RocketMQ string // what RocketMQ 4.9.3 does
	PocketMQ string // what PocketMQ does
	Why      string
	Suites   []Suite // that meet it; nil is Recorded alone
}

// Suite names tests that hold PocketMQ against RocketMQ.
type Suite string

// The suites.
const (
	Recorded Suite = "recorded" // with what RocketMQ once wrote and answered: TestGolden of package store
	Interop  Suite = "interop"  // with RocketMQ itself: the module interop

	// InteropAtTimes marks what Interop meets or not: the moment of a kill decides.
	InteropAtTimes Suite = "interop at times"
)

// MetBy reports whether the tests of s may meet the difference, and must.
func (d Difference) MetBy(s Suite) bool {
	if d.Suites == nil {
		return s == Recorded
	}
	return slices.Contains(d.Suites, s)
}

// Differences are all differences from RocketMQ 4.9.3 that tests accept. A suite
// that meets another one than its own fails, and so does one that never meets an
// entry of its own.
var Differences = []Difference{
	{
		ID:       "F4",
		RocketMQ: "A get beyond the end of a queue whose minimum is 0: OFFSET_OVERFLOW_BADLY, go on at 0.",
		PocketMQ: "Go on at the end of the queue.",
		Why:      "Going on at 0 delivers the whole queue again. RocketMQ 4.9.4 does as we do.",
		Suites:   []Suite{Recorded, Interop},
	},
	{
		ID:       "F5",
		RocketMQ: "maxMessageSize limits the whole record.",
		PocketMQ: "It limits the body, or the encoded batch; the record may take MaxRecordOverhead more.",
		Why:      "A message that was taken could be refused when it is put again with more properties. RocketMQ 4.9.4 does as we do.",
	},
	{
		ID:       "F6",
		RocketMQ: "The time of the first record of a log is -1 when the log is smaller than 8 MiB.",
		PocketMQ: "It is the record's time.",
		Why:      "The record is there. RocketMQ 5 does as we do.",
	},
	{
		ID:       "F9",
		RocketMQ: "A store killed while it makes a file leaves it with no length, and does not open any more.",
		PocketMQ: "It opens: a consume queue is built from the log.",
		Why:      "No message is lost. RocketMQ 5 removes such a file, if it is the last.",
		Suites:   []Suite{Interop},
	},
	{
		ID:       "F19",
		RocketMQ: "A queue whose messages are all deleted keeps its minimum.",
		PocketMQ: "Minimum and maximum are equal.",
		Why:      "Offsets without a message are not in the queue.",
	},
	{
		ID:       "F20",
		RocketMQ: "The offset of a time is looked for in one consume queue file, chosen by when the files were modified.",
		PocketMQ: "In all units of the queue.",
		Why:      "When a file was modified says nothing about its messages: it changes when the file is copied. RocketMQ 5 does as we do.",
		Suites:   []Suite{Recorded, Interop},
	},
	{
		ID:       "F25",
		RocketMQ: "A topic of at most 127 characters but more than 127 bytes is stored with a wrong length.",
		PocketMQ: "MESSAGE_ILLEGAL.",
		Why:      "The record can not be read, and recovery cuts the log there.",
	},
	{
		ID:       "F26",
		RocketMQ: "A record or batch larger than a commit log file: PUT_OK, nothing stored, a whole file left blank.",
		PocketMQ: "MESSAGE_ILLEGAL, nothing written.",
		Why:      "What is acknowledged must be stored.",
	},
	{
		ID:       "F27",
		RocketMQ: "What lies behind the place where recovery cuts the log stays there.",
		PocketMQ: "It is set to zero.",
		Why: "When new records happen to end where an old one begins, the old ones come back. " +
			"Zeros are what RocketMQ itself expects behind the end.",
	},
	{
		ID:       "F35",
		RocketMQ: "A file missing in the middle of a consume queue after a clean stop stays missing: OFFSET_FOUND_NULL. So does a whole queue.",
		PocketMQ: "It is built again from the log.",
		Why:      "The messages are in the log.",
		Suites:   []Suite{Recorded, Interop},
	},
	{
		ID:       "F36",
		RocketMQ: "A record that can not be read hides all that follows it in its file.",
		PocketMQ: "What follows is found.",
		Why:      "Messages that can be read are not lost because one can not.",
	},
	{
		ID:       "F39",
		RocketMQ: "A batch whose properties are too long raises an exception.",
		PocketMQ: "PROPERTIES_SIZE_EXCEEDED.",
		Why:      "A refusal is a status.",
	},
	{
		ID:       "F40",
		RocketMQ: "Keys in an index file that a crash, or somebody, has taken away are found again only of messages that recovery dispatches.",
		PocketMQ: "It builds the index again from the log, also where it finds that RocketMQ has left out keys.",
		Why:      "The messages, and their keys, are in the log.",
		Suites:   []Suite{Interop},
	},
	{
		ID:       "G-KEY-HASH",
		RocketMQ: "A query for a key gives the messages with any key of the same hash, and leaves out others for them once there are maxNum.",
		PocketMQ: "Only messages with the key.",
		Why:      "Whoever asks for an order does not want another's. RocketMQ's callers have to look at each message again, and can not find what was left out.",
		Suites:   []Suite{Recorded, Interop},
	},
	{
		ID:       "G-KEY-TWICE",
		RocketMQ: "A message that names a key twice, or two keys of the same hash, is in the answer twice.",
		PocketMQ: "Once.",
		Why:      "It is one message.",
		Suites:   []Suite{Recorded, Interop},
	},
	{
		ID:       "G-KEY-SECOND",
		RocketMQ: "The times of a query are compared with store times taken down to the second after the first message of the index file.",
		PocketMQ: "With store times to the millisecond.",
		Why:      "The records have their times.",
		Suites:   []Suite{Recorded, Interop},
	},
	{
		ID:       "G-KEY-UPDATE",
		RocketMQ: "How far the index is, is only said when a message was found.",
		PocketMQ: "Always.",
		Why:      "Who finds nothing wants to know whether to ask again.",
	},
	{
		ID:       "G-INDEX-AGAIN",
		RocketMQ: "When the dispatcher begins at an earlier place of the log than where it ended, the last message of the index is indexed a second time, and is in answers twice.",
		PocketMQ: "Keys that are there are not added again.",
		Why:      "It is one message.",
		Suites:   []Suite{Recorded, InteropAtTimes},
	},
	{
		ID:       "G-INDEX-BEHIND",
		RocketMQ: "What the index has of messages behind the end of the log stays there, and new messages are not indexed before the log has passed it.",
		PocketMQ: "It is removed.",
		Why:      "These messages are gone, and others will have their offsets.",
	},
	{
		ID:       "G-EMPTY-BATCH",
		RocketMQ: "A batch without messages: PUT_OK with no bytes, and no message id.",
		PocketMQ: "MESSAGE_ILLEGAL.",
		Why:      "Nothing is stored, so nothing can be acknowledged.",
	},
	{
		ID:       "G-FIRST-FILE",
		RocketMQ: "Log offset 0 is answered from the first file that is left: with a record of another topic.",
		PocketMQ: "The record is gone.",
		Why:      "The record that is answered is not the one asked for.",
	},
	{
		ID:       "G-UNSIGNED",
		RocketMQ: "A stored topic of 128 to 255 bytes has a negative length and can not be read.",
		PocketMQ: "The length is read as unsigned.",
		Why: "It follows from F25. We refuse such a put, but RocketMQ acknowledged it, and its bytes are complete and the only ones " +
			"that these fields can have: the byte holds the length, and only its sign is misread. So the message is not lost.",
	},
	{
		ID:       "G-NONSENSE",
		RocketMQ: "Looking at a damaged record by its log offset may give a message with wrong topic and properties.",
		PocketMQ: "No message: lengths that contradict each other are damage.",
		Why: "It follows from F25: of a topic of 256 bytes or more the stored length is too small, so the fields behind it " +
			"are read from the middle of the topic. That they do not fill the record shows it. What a producer never sent is not served.",
	},
	{
		ID:       "G-REBUILD",
		RocketMQ: "Consume queues deleted after a crash get only the messages after the place where recovery starts; blanks before.",
		PocketMQ: "They are built again from the first record of the log.",
		Why:      "The messages are in the log.",
	},
	{
		ID:       "G-DELAY-ORDER",
		RocketMQ: "Parking a delayed message writes its properties in the order of a Java hash map.",
		PocketMQ: "The order stays, and what is new comes at the end.",
		Why:      "The order has no meaning, and that of a hash map is nobody's to reproduce.",
	},
	{
		ID:       "G-DELAY-WAIT",
		RocketMQ: "Parking a delayed message stores its property WAIT, which is stored for no other message.",
		PocketMQ: "WAIT is not stored.",
		Why: "A broker, RocketMQ's and ours, takes WAIT out of the text before the put; RocketMQ's map of properties still has it when " +
			"parking writes the text anew. It speaks about one put. Stored, it is delivered, and a consumer that sends " +
			"the message on would not wait for that put either.",
	},
	{
		ID:       "G-EMPTY-LOG",
		RocketMQ: "The smallest offset of a log without files is -1.",
		PocketMQ: "It is 0, where the first message will be.",
		Why: "No message has either offset, so no message is answered otherwise. The next one gets 0, from RocketMQ as well, " +
			"so 0 is both where the log begins and where it ends.",
	},
	{
		ID:       "G-NO-NEXT-FILE",
		RocketMQ: "A put that finds no next file fills the rest of the last one, so that small messages are refused as well.",
		PocketMQ: "Nothing is written, and what fits is still taken.",
		Why: "A refused put takes no room, as in F26, and what fits needs no next file. Such a message is an ordinary record, " +
			"and the blank follows with the first put that finds a next file: the log is one that RocketMQ can write as well.",
	},
	{
		ID:       "G-REMOVING",
		RocketMQ: "Between deleting log files and looking at the consume queues the deleted messages are in their queues: MESSAGE_WAS_REMOVING.",
		PocketMQ: "Queues begin at the first message that is left: OFFSET_TOO_SMALL before it.",
		Why: "Open looks at the queues before it answers. RocketMQ does so too when it opens such a directory, and in a running " +
			"store as its next step, and then answers as we do: the case minoffset.",
	},
	{
		ID:       "G-EARLY",
		RocketMQ: "A parked message that recovery after a crash puts into its queue has the hash of its tag there, and is delivered at once.",
		PocketMQ: "It has the time it is due, as always.",
		Why: "RocketMQ reads the table of delay levels after recovery, and until then knows of none. " +
			"What was sent for later is not delivered now because a process was killed.",
		Suites: []Suite{Interop},
	},
}
