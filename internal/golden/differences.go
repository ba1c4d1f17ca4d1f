package golden

// Difference is one thing that PocketMQ does otherwise than RocketMQ 4.9.3.
type Difference struct {
	ID       string // F and a number: a known fault of RocketMQ 4.9.3; G and a name: found in the recorded stores
	RocketMQ string // what RocketMQ 4.9.3 does
	PocketMQ string // what PocketMQ does
	Why      string
}

// Differences are all differences from RocketMQ 4.9.3 that tests accept. A test
// that meets another one fails, and so does one that never meets an entry.
var Differences = []Difference{
	{
		ID:       "F4",
		RocketMQ: "A get beyond the end of a queue whose minimum is 0: OFFSET_OVERFLOW_BADLY, go on at 0.",
		PocketMQ: "Go on at the end of the queue.",
		Why:      "Going on at 0 delivers the whole queue again. RocketMQ 4.9.4 does as we do.",
	},
	{
		ID:       "F5",
		RocketMQ: "maxMessageSize limits the whole record.",
		PocketMQ: "It limits the body, or the encoded batch; the record may take MaxRecordOverhead more.",
		Why:      "A message that was taken could be refused when it is put again with more properties. RocketMQ 4.9.4 does as we do.",
	},
	{
		ID:       "F19",
		RocketMQ: "A queue whose messages are all deleted keeps its minimum.",
		PocketMQ: "Minimum and maximum are equal.",
		Why:      "Offsets without a message are not in the queue.",
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
		ID:       "F35",
		RocketMQ: "A file missing in the middle of a consume queue after a clean stop stays missing: OFFSET_FOUND_NULL.",
		PocketMQ: "It is built again from the log.",
		Why:      "The messages are in the log.",
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
		Why:      "The record is complete, so its message is not lost.",
	},
	{
		ID:       "G-NONSENSE",
		RocketMQ: "Looking at a damaged record by its log offset may give a message with wrong topic and properties.",
		PocketMQ: "No message: lengths that contradict each other are damage.",
		Why:      "Nothing damaged is served.",
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
		Why:      "WAIT speaks about one put, and is not part of the message.",
	},
	{
		ID:       "G-EMPTY-LOG",
		RocketMQ: "The smallest offset of a log without files is -1.",
		PocketMQ: "It is 0, where the first message will be.",
		Why:      "Minimum and maximum bound what is there, also when nothing is.",
	},
	{
		ID:       "G-NO-NEXT-FILE",
		RocketMQ: "A put that finds no next file fills the rest of the last one, so that small messages are refused as well.",
		PocketMQ: "Nothing is written, and what fits is still taken.",
		Why:      "A refused put leaves nothing behind.",
	},
}
