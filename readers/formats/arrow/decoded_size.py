"""Limits on the memory of compressed record batches, checked before pyarrow decompresses them.

Every buffer of a compressed batch begins with its decompressed length, and pyarrow allocates that many bytes.
The metadata is parsed as FlatBuffers of Arrow's columnar format, version 1.5: File.fbs and Message.fbs.
"""

import struct
from collections.abc import Iterator

from readers.storage.blob.mapped import Parsed
from readers.storage.limits import check_bytes

_FOOTER_END = 10  # bytes of the footer's length and of the magic at the end of a file
_DICTIONARY, _RECORD_BATCH = 2, 3  # kinds of messages
_BLOCK, _BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq")


def check_file(content: Parsed) -> None:
    """Check the decompressed size of every batch of a file in Arrow's file format.

    Args:
        content: All bytes of the file.

    Raises:
        TooLargeError: A batch takes too much memory.
        struct.error, IndexError: The file is damaged; callers let pyarrow report it.
    """
    size = len(content)
    (length,) = struct.unpack("<i", content[size - _FOOTER_END : size - _FOOTER_END + 4])
    footer = bytes(content[size - _FOOTER_END - length : size - _FOOTER_END])
    root = _root(footer)
    for field in (2, 3):  # dictionaries, record batches
        for offset in _structs(footer, root, field, _BLOCK.size):
            start, head_bytes, body_bytes = _BLOCK.unpack_from(footer, offset)
            head = bytes(content[start : start + head_bytes])
            skipped = 8 if head[:4] == b"\xff\xff\xff\xff" else 4
            body = start + head_bytes
            check_message(head[skipped:], content, body, body + body_bytes)


def check_message(head: bytes, content: Parsed, start: int, stop: int) -> None:
    """Check the decompressed size of one message's batch; a message without a compressed batch passes.

    Args:
        head: The FlatBuffer of the message.
        content: All bytes of the file.
        start: Offset in `content` at which the body of the message begins.
        stop: Offset in `content` at which the body ends.

    Raises:
        TooLargeError: The batch takes too much memory.
        struct.error, IndexError: The message is damaged; callers let pyarrow report it.
    """
    message = _root(head)
    kind_at, batch = _field(head, message, 1), _table(head, message, 2)
    kind = head[kind_at] if kind_at else 0
    if kind == _DICTIONARY and batch is not None:
        batch = _table(head, batch, 1)
    if kind not in (_DICTIONARY, _RECORD_BATCH) or batch is None or not _field(head, batch, 3):
        return  # not compressed: pyarrow allocates no buffers for it
    total = 0
    for buffer in _structs(head, batch, 2, _BUFFER.size):
        offset, length = _BUFFER.unpack_from(head, buffer)
        if length and start <= start + offset + 8 <= stop:
            (claimed,) = struct.unpack("<q", content[start + offset : start + offset + 8])
            total += claimed if claimed >= 0 else length  # -1: this buffer is not compressed
    check_bytes(total, "a record batch")


def _root(data: bytes) -> int:
    return int(struct.unpack_from("<I", data)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return the offset of a field in a FlatBuffers table, None if the table lacks the field."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, fields)[0]:
        return None
    (offset,) = struct.unpack_from("<H", data, fields + 4 + 2 * number)
    return table + offset if offset else None


def _table(data: bytes, table: int, number: int) -> int | None:
    offset = _field(data, table, number)
    return None if offset is None else offset + int(struct.unpack_from("<I", data, offset)[0])


def _structs(data: bytes, table: int, number: int, size: int) -> Iterator[int]:
    """Yield the offset of each structure in a vector field; nothing if the table lacks the field."""
    vector = _table(data, table, number)
    if vector is not None:
        (count,) = struct.unpack_from("<I", data, vector)
        if vector + 4 + count * size > len(data):
            raise IndexError("a vector leads out of its message")
        yield from range(vector + 4, vector + 4 + count * size, size)
