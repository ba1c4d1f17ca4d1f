package mmap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// filesystems are the magic numbers of statfs(2) worth a name.
var filesystems = map[uint32]FSInfo{
	unix.EXT4_SUPER_MAGIC:      {Name: "ext4"}, // ext2 and ext3 share the number
	unix.XFS_SUPER_MAGIC:       {Name: "xfs"},
	unix.BTRFS_SUPER_MAGIC:     {Name: "btrfs"},
	unix.BCACHEFS_SUPER_MAGIC:  {Name: "bcachefs"},
	unix.F2FS_SUPER_MAGIC:      {Name: "f2fs"},
	0x2fc12fc1:                 {Name: "zfs"},
	unix.EXFAT_SUPER_MAGIC:     {Name: "exfat"},
	unix.MSDOS_SUPER_MAGIC:     {Name: "vfat"},
	0x7366746e:                 {Name: "ntfs3"},
	unix.OVERLAYFS_SUPER_MAGIC: {Name: "overlay"},
	unix.JFFS2_SUPER_MAGIC:     {Name: "jffs2"},
	0x24051905:                 {Name: "ubifs"},

	unix.TMPFS_MAGIC: {Name: "tmpfs", Volatile: true},
	unix.RAMFS_MAGIC: {Name: "ramfs", Volatile: true},

	unix.NFS_SUPER_MAGIC:    {Name: "nfs", Network: true},
	unix.CIFS_SUPER_MAGIC:   {Name: "cifs", Network: true},
	unix.SMB2_SUPER_MAGIC:   {Name: "smb2", Network: true},
	unix.SMB_SUPER_MAGIC:    {Name: "smb", Network: true},
	unix.NCP_SUPER_MAGIC:    {Name: "ncp", Network: true},
	unix.V9FS_MAGIC:         {Name: "9p", Network: true},
	unix.FUSE_SUPER_MAGIC:   {Name: "fuse", Network: true},
	unix.CEPH_SUPER_MAGIC:   {Name: "ceph", Network: true},
	unix.AFS_SUPER_MAGIC:    {Name: "afs", Network: true},
	unix.AFS_FS_MAGIC:       {Name: "afs", Network: true},
	unix.CODA_SUPER_MAGIC:   {Name: "coda", Network: true},
	unix.OCFS2_SUPER_MAGIC:  {Name: "ocfs2", Network: true},
	unix.HOSTFS_SUPER_MAGIC: {Name: "hostfs", Network: true},
	0x01161970:              {Name: "gfs2", Network: true},
	0x0bd00bd0:              {Name: "lustre", Network: true},
	0x47504653:              {Name: "gpfs", Network: true},
	0x20030528:              {Name: "orangefs", Network: true},
	0x19830326:              {Name: "beegfs", Network: true},
	0x786f4256:              {Name: "vboxsf", Network: true},
	0xbacbacbc:              {Name: "vmhgfs", Network: true},
	0x7c7c6673:              {Name: "prl_fs", Network: true},
}

// Filesystem tells what kind of filesystem path, which must exist, lies on.
func Filesystem(path string) (FSInfo, error) {
	st, err := statfs(path)
	if err != nil {
		return FSInfo{}, fmt.Errorf("filesystem of %s: %w", path, err)
	}
	return filesystems[uint32(st.Type)], nil
}

// Space returns the size of the filesystem of path and what is free for this user, in bytes.
func Space(path string) (total, free int64, err error) {
	st, err := statfs(path)
	if err != nil {
		return 0, 0, fmt.Errorf("space of %s: %w", path, err)
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), nil
}

func statfs(path string) (st unix.Statfs_t, err error) {
	for err = unix.Statfs(path, &st); err == unix.EINTR; {
		err = unix.Statfs(path, &st)
	}
	return st, err
}
