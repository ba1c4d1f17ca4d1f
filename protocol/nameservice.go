package protocol

import "context"

// NameService knows which brokers have which topics. All methods may be called
// concurrently.
type NameService interface {
	// RouteOfTopic returns the brokers of a topic, or an error that matches
	// TopicNotExist.
	RouteOfTopic(ctx context.Context, topic string) (TopicRoute, error)
	// ListBrokers returns all brokers, sorted by name. The slice is the caller's.
	ListBrokers(ctx context.Context) ([]BrokerData, error)
	// RegisterBroker adds a broker, or replaces everything known about it.
	RegisterBroker(ctx context.Context, req RegisterBrokerRequest) error
	// UnregisterBroker forgets a broker. An unknown one is no error.
	UnregisterBroker(ctx context.Context, name string, id int64) error
	// WatchRoutes makes a non-blocking send to ch after each change, until stop
	// is called. An implementation that learns of no changes sends nothing.
	WatchRoutes(ch chan<- struct{}) (stop func())
}

// RegisterBrokerRequest describes a broker with all its topics.
type RegisterBrokerRequest struct {
	Cluster string
	Name    string
	ID      int64
	Addr    string
	Topics  []TopicConfig // the name service's from now on

	// Broker is the broker itself, where it lives in this process.
	Broker Broker
}
