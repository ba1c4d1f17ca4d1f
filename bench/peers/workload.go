package main

// workload is what is done to every peer in the same way.
type workload struct {
	name     string // in the form of benchmark names
	title    string
	size     int // bytes of a body
	writers  int
	batch    int       // messages in one put, or asked for by one read; 1: no batch
	promises []promise // the promises under which it is measured; each is a group of its own
	read     bool
}

var workloads = []workload{
	{name: "put/size=1024/writers=1", title: "Put 1 KiB, one writer", size: 1024, writers: 1, batch: 1,
		promises: []promise{processCrash, memoryOnly, powerLoss}},
	{name: "put/size=128/writers=1", title: "Put 128 B, one writer", size: 128, writers: 1, batch: 1,
		promises: []promise{processCrash, memoryOnly}},
	{name: "put/size=1024/writers=64", title: "Put 1 KiB, 64 writers", size: 1024, writers: 64, batch: 1,
		promises: []promise{powerLoss}},
	{name: "put/size=1024/batch=100", title: "Put a batch of 100 × 1 KiB, one writer", size: 1024, writers: 1, batch: 100,
		promises: []promise{powerLoss}},
	{name: "read/size=1024/batch=32", title: "Read everything, 1 KiB, 32 at a time", size: 1024, writers: 1, batch: 32,
		promises: []promise{staysThere, isRemoved}, read: true},
}

func workloadNamed(name string) (workload, bool) {
	for _, w := range workloads {
		if w.name == name {
			return w, true
		}
	}
	return workload{}, false
}

// messages is how many have so many bytes, in whole batches.
func (w workload) messages(bytes int64) int64 {
	put := int64(w.size * w.batch)
	return (bytes + put - 1) / put * int64(w.batch)
}

// takes reports whether the peer can be measured so.
func (w workload) takes(p peer, pr promise) bool {
	if w.read {
		return !p.putsOnly && p.removes == (pr == isRemoved)
	}
	_, gives := p.gives[pr]
	return gives && (w.batch == 1 || p.batch != "")
}
