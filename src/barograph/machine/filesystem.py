"""Detection of network file systems."""

from __future__ import annotations

from pathlib import Path

import psutil

_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.ceph-fuse",
    "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.mount-s3", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "mountpoint-s3", "nfs", "nfs4", "panfs", "pvfs2", "smb2",
    "smb3", "smbfs", "wekafs",
})


def network_filesystem(path: Path) -> str:
    """Return the type of the network file system of a path, such as "nfs4"; "" for a local one.

    Args:
        path: A path; it need not exist.
    """
    whole = path.resolve()
    mounts = {Path(mount.mountpoint): mount.fstype.lower() for mount in psutil.disk_partitions(all=True)}
    for folder in (whole, *whole.parents):
        if folder in mounts:
            return mounts[folder] if mounts[folder] in _NETWORK else ""
    return ""
