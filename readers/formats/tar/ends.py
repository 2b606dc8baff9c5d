"""Checks of the end of a tar: whether it is marked, and whether the last sample lacks files.

GNU tar and Python write two blocks of zeros after the last member; a writer that was never closed writes none. Tars
that were joined by ``cat`` have such blocks in the middle, where most programs stop.
"""

from collections.abc import Iterable, Sequence

from readers.storage.blob import Content

BLOCK_BYTES = 512
# Limit of extended headers: a name has up to 4 kB and a Linux attribute up to 64 kB, but maps of sparse files are longer.
MAX_HEADER_BYTES = 16 << 20
_PIECE_BYTES = 1 << 20  # bytes that are read at a time to find data after zeros

UNENDED = (  # continues the message "ends at byte N"
    "without the two zero blocks that a finished tar ends with: samples behind it may be missing, so count them, or write "
    "the tar again"
)


def end_fault(end: int, size: int, block: bytes) -> str:
    """Return the reason why the members of a tar end too early, "" if they end as they should.

    Args:
        end: Offset at which the next header would begin.
        size: Length of the tar in bytes.
        block: The bytes at that offset, up to 512.
    """
    if size < end:
        return f"is cut off at byte {size}: what follows is missing"
    if not block.strip(b"\0"):
        return ""
    if len(block) < BLOCK_BYTES:
        return f"is cut off at byte {size}, within a header"
    return f"is damaged at byte {end}: what lies behind it cannot be found"


def oversized(offset: int, num_bytes: int) -> str:
    """Return the fault of an extended header if its content is too large, "" otherwise.

    Args:
        offset: Offset at which the content begins.
        num_bytes: Size that the header states for its content.
    """
    if num_bytes <= MAX_HEADER_BYTES:
        return ""
    return f"the header at byte {offset - BLOCK_BYTES} is damaged: it claims {num_bytes} bytes, more than {MAX_HEADER_BYTES}"


def next_archive(content: Content, end: int) -> int:
    """Return the offset of the next archive after the zeros that end an archive, -1 if there is none.

    Args:
        content: Bytes of the tar.
        end: Offset of the end of the archive's last member.
    """
    for start in range(end, len(content), _PIECE_BYTES):
        piece = bytes(content[start : start + _PIECE_BYTES])
        if rest := piece.lstrip(b"\0"):
            skipped = start - end + len(piece) - len(rest)
            return end + skipped // BLOCK_BYTES * BLOCK_BYTES
    return -1


def lost_fields(kinds: Iterable[tuple[str, ...]], names: Iterable[str]) -> list[str]:
    """Return the fields that a sample lacks although all other samples have them.

    Args:
        kinds: The different lists of fields of the other samples.
        names: Fields of the sample.
    """
    common = [set(kind) for kind in kinds]
    return sorted(set.intersection(*common).difference(names)) if common else []


def lost_part(reason: str, lost: Sequence[str]) -> str:
    """Return the fault of the last sample in a truncated tar, which lacks fields.

    Args:
        reason: Reason why the tar counts as truncated.
        lost: The missing fields.
    """
    return f"{reason} (this sample has no {', '.join(lost)}, as all before it have)"
