"""The end of a tar: whether it is marked, and what its last sample may lack after a cut.

GNU tar and Python write two blocks of zeros behind the last member; writers that were never closed write none. Tars
that were joined by ``cat`` have such blocks in the middle, where most programs stop.
"""

from collections.abc import Iterable, Sequence

from readers.storage.blob import Content

BLOCK_BYTES = 512
# What an extended header may say: a name has 4 kB and an attribute of Linux 64 kB, but lists of the parts of sparse files are longer.
MAX_HEADER_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20  # looked at together for something behind zeros

UNENDED = (  # of a shard that "ends at byte N"
    "without the two zero blocks that a finished tar ends with: samples behind it may be missing, so count them, or write "
    "the tar again"
)


def end_fault(end: int, size: int, block: bytes) -> str:
    """Return why the members of a tar stop too early, "" if they do not.

    Args:
        end: Where the next header must stand.
        size: Length of the tar in bytes.
        block: What stands there, up to 512 bytes.
    """
    if size < end:
        return f"is cut off at byte {size}: what follows is missing"
    if not block.strip(b"\0"):
        return ""
    if len(block) < BLOCK_BYTES:
        return f"is cut off at byte {size}, within a header"
    return f"is damaged at byte {end}: what lies behind it cannot be found"


def oversized(offset: int, num_bytes: int) -> str:
    """Return the fault of an extended header whose content begins at an offset, "" if its size is credible."""
    if num_bytes <= MAX_HEADER_BYTES:
        return ""
    return f"the header at byte {offset - BLOCK_BYTES} is damaged: it claims {num_bytes} bytes, more than {MAX_HEADER_BYTES}"


def next_archive(content: Content, end: int) -> int:
    """Return where data follows behind the zeros that end an archive, -1 if none does."""
    for start in range(end, len(content), _PIECE_BYTES):
        piece = bytes(content[start : start + _PIECE_BYTES])
        if rest := piece.lstrip(b"\0"):
            skipped = start - end + len(piece) - len(rest)
            return end + skipped // BLOCK_BYTES * BLOCK_BYTES
    return -1


def lost_fields(kinds: Iterable[tuple[str, ...]], names: Iterable[str]) -> list[str]:
    """Return the fields that a sample lacks and samples of all these combinations of fields have."""
    common = [set(kind) for kind in kinds]
    return sorted(set.intersection(*common).difference(names)) if common else []


def lost_part(reason: str, lost: Sequence[str]) -> str:
    """Return the fault of the last sample of a tar that was cut off, without fields that all others have."""
    return f"{reason} (this sample has no {', '.join(lost)}, as all before it have)"
