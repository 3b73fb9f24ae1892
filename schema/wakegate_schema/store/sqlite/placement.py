"""Where a SQLite file may lie: not on a network filesystem, and not where root would lock its owner out."""

import os
from pathlib import Path

from wakegate_schema.store.errors import StoreMisplaced

_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "fakeowner", "glusterfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.grpcfuse", "fuse.osxfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
    | {"fuse.vmhgfs-fuse"}
)
"""Network filesystems, and the folders of its host that a virtual machine or a container sees."""
_MOUNTS = Path("/proc/self/mountinfo")


def check(path: Path) -> None:
    """Raise `StoreMisplaced` unless a database file may be kept at `path`."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreMisplaced(f"the folder {folder} of the database does not exist; make it first")
    kind = filesystem(
        folder.resolve(), _MOUNTS.read_text(encoding="utf-8", errors="replace") if _MOUNTS.exists() else ""
    )
    if kind in _NETWORK:
        raise StoreMisplaced(
            f"{folder} is a network or host-shared filesystem ({kind}), where SQLite loses data; use a local disk"
        )


def check_creator(path: Path) -> None:
    """Raise `StoreMisplaced` when root is about to make a store in another user's folder."""
    owner = _other_owner(path)
    if owner is not None:
        raise StoreMisplaced(
            f"root would make {path} unreadable for the owner of its folder (uid {owner}); run as that user"
        )


def check_server(path: Path) -> None:
    """Raise `StoreMisplaced` when root is about to run a service where another user's service belongs.

    What it makes there (locks, a socket, keys) would keep that one from starting ever after.
    """
    owner = _other_owner(path)
    if owner is not None:
        raise StoreMisplaced(
            f"root must not run a service on {path}, whose folder belongs to another user (uid {owner}): what it makes"
            " would keep that user's services from starting; run it as its own user, installed: by systemctl start"
        )


def _other_owner(path: Path) -> int | None:
    """Return whose the folder is, if this is root and it is another user's."""
    owner = path.absolute().parent.stat().st_uid
    return owner if os.geteuid() == 0 and owner != 0 else None


def filesystem(folder: Path, mountinfo: str) -> str:
    """Return the type of the filesystem that holds `folder`, as the kernel's mountinfo names it; '' if unknown."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        mount = fields[4].encode().decode("unicode_escape", errors="replace")
        if folder.is_relative_to(mount) and len(Path(mount).parts) >= best:
            best, kind = len(Path(mount).parts), after.split(" ")[0]
    return kind
