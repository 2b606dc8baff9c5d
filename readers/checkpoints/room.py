"""How much room the checkpoints of all datasets take in the cache folder."""

import shutil
from contextlib import suppress
from pathlib import Path

from readers.checkpoints.sample_file import SUFFIX

_MOST_BYTES = 10_000_000_000
_LEAST_SHARE = 1 / 4


def make_room(path: Path) -> int:
    """Return how large a file of the folder may become: all together take 10 GB, or a tenth of what is free and theirs.

    Where others leave it less than a quarter of that, those that were not used for longest are removed. Who has one of them
    open goes on with it, and makes a new one when something is kept.

    Args:
        path: The file, which is there.

    Raises:
        OSError: The folder cannot be looked at.
    """
    used: list[tuple[float, int, Path]] = []
    own_bytes = 0
    for other in path.parent.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # another process removed it
            status = other.stat()
            if other == path:
                own_bytes = status.st_size
            else:
                used.append((status.st_mtime, status.st_size, other))
    others_bytes = sum(size for _, size, _ in used)
    free = shutil.disk_usage(path.parent).free
    most = min(_MOST_BYTES, (own_bytes + others_bytes + free) // 10)
    for _, size, other in sorted(used):
        if others_bytes <= (1 - _LEAST_SHARE) * most:
            break
        with suppress(FileNotFoundError):  # another process removed it
            other.unlink()
        others_bytes -= size
    return most - others_bytes
