package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"net/netip"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// identity is drawn once for a directory. Message ids contain it, so a damaged
// file is an error, never a new identity.
type identity struct {
	StoreHost string `json:"storeHost"`
}

const identityFile = "identity.json"

// syntheticPort is the port of a RocketMQ broker.
const syntheticPort = 10911

// storeHost reads the directory's address, drawing one of the loopback network
// when it has none. No network interface is looked up.
func storeHost(fsys segment.FS, dir string, mode fs.FileMode) (message.Host, error) {
	var id identity
	err := readOwn(fsys, dir, identityFile, &id)
	if err == nil {
		return message.ParseHost(id.StoreHost)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return message.Host{}, err
	}
	addr := [4]byte{127}
	_, _ = rand.Read(addr[1:]) // never fails
	host := message.Host{Addr: netip.AddrFrom4(addr), Port: syntheticPort}
	id.StoreHost = host.String()
	return host, writeOwn(fsys, dir, identityFile, id, mode)
}
