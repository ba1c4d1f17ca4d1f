package message

// HalfTopic is where messages in transaction wait, in queue 0, for their end.
const HalfTopic = "RMQ_SYS_TRANS_HALF_TOPIC"
