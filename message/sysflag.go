package message

// SysFlag is the bit set that a record carries about itself.
//
//	bit  mask  meaning
//	  0  0x01  body is compressed
//	  1  0x02  several tags; nothing in the store depends on it
//	2-3  0x0C  transaction type: 0 none, 4 prepared, 8 commit, 12 rollback
//	  4  0x10  born host is IPv6
//	  5  0x20  store host is IPv6
//
// Other bits are kept as they are. Source: RocketMQ common/sysflag/MessageSysFlag.java.
type SysFlag int32

// The bits of a SysFlag.
const (
	FlagCompressed SysFlag = 0x01
	FlagMultiTags  SysFlag = 0x02

	TransactionNone     SysFlag = 0x00
	TransactionPrepared SysFlag = 0x04
	TransactionCommit   SysFlag = 0x08
	TransactionRollback SysFlag = 0x0C

	FlagBornHostV6  SysFlag = 0x10
	FlagStoreHostV6 SysFlag = 0x20

	transactionMask = SysFlag(0x0C)
)

// Transaction returns the transaction type: one of the Transaction constants.
func (f SysFlag) Transaction() SysFlag { return f & transactionMask }

// WithTransaction returns f with its transaction type replaced by t.
func (f SysFlag) WithTransaction(t SysFlag) SysFlag {
	return f&^transactionMask | t&transactionMask
}

// Queued reports whether a record with this flag takes a queue offset and
// enters a consume queue: prepared and rolled-back ones do not.
func (f SysFlag) Queued() bool {
	t := f.Transaction()
	return t == TransactionNone || t == TransactionCommit
}

// withHosts sets the two address-family bits from the hosts themselves.
func (f SysFlag) withHosts(born, store Host) SysFlag {
	f &^= FlagBornHostV6 | FlagStoreHostV6
	if born.IsV6() {
		f |= FlagBornHostV6
	}
	if store.IsV6() {
		f |= FlagStoreHostV6
	}
	return f
}

// bornHostWidth and storeHostWidth give the bytes that each host takes; readers
// decide from the flag alone.
func (f SysFlag) bornHostWidth() int {
	if f&FlagBornHostV6 != 0 {
		return hostWidthV6
	}
	return hostWidthV4
}

func (f SysFlag) storeHostWidth() int {
	if f&FlagStoreHostV6 != 0 {
		return hostWidthV6
	}
	return hostWidthV4
}
