"""Parser of LMDB files: walks the pages of a B+tree from the first key to the last.

The format is that of LMDB 0.9 on little-endian machines with 64 bits, which has not changed since 2014.
All page numbers are checked: a link out of the file, or to a page that was visited before, is a fault.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from readers.sample import Payload, SourceError
from readers.storage.blob import Content

_MAGIC, _VERSION, _NO_PAGE = 0xBEEFC0DE, 1, (1 << 64) - 1
_HEADER = struct.Struct(
    "<QHHHH"
)  # page number, padding, flags, end of the pointers, start of the nodes
_META = struct.Struct(
    "<IIQQ48s48sQQ"
)  # magic, version, address, map size, two trees, last page, txn
_DATABASE = struct.Struct("<IHHQQQQQ")  # padding, flags, depth, pages of three kinds, entries, root
_NODE = struct.Struct("<HHHH")  # size in two halves, flags, length of the key
_PAGE_NUMBER = struct.Struct("<Q")
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4  # of pages
_ELSEWHERE, _SUBTREE, _DUPLICATES = 1, 2, 4  # of nodes
_SORTED_DUPLICATES, _INTEGER_KEYS = 4, 8  # of databases
_MAX_DEPTH = 32  # the cursors of LMDB hold as many pages
_ADVICE = "write it with LMDB 0.9 on a little-endian machine with 64 bits, or correct the path"


class Node(NamedTuple):
    """A key and the location of its value in the file; or a part of the tree that cannot be read.

    Attributes:
        key: The key; an integer key is written in decimal digits.
        start: Offset of the value in the file.
        stop: Offset of the end of the value.
        fault: Reason why the value cannot be read, "" if it can.
        is_lost: Whether this stands for an unreadable part of the tree, which `key` then names.
    """

    key: bytes
    start: int = 0
    stop: int = 0
    fault: str = ""
    is_lost: bool = False


class Tree:
    """One database in an environment.

    Args:
        content: The bytes of the file.
        name: Name of the file, for errors.
        database: Name of the database; None for the main database, or for the only named one if the main database
            holds nothing else.

    Raises:
        SourceError: The file is no LMDB file of a 64-bit little-endian machine, or has no such database.
    """

    def __init__(self, content: Content, name: str, database: str | None = None) -> None:
        self._content, self._name = content, name
        main, self._page_bytes = self._read_meta()
        self._flags, self._root = main
        subtrees = self._subtrees(database)
        if database is None and not subtrees:
            return
        if database is None and len(subtrees) == 1:
            database = next(iter(subtrees))
        if database is None or database not in subtrees:
            names = ", ".join(map(repr, subtrees)) or "none"
            raise SourceError(
                f"{name} has the named databases {names}: name one of them with database=, got {database!r}"
            )
        self._flags, self._root = subtrees[database]

    def nodes(self) -> Iterator[Node]:
        """Yield a node for each key, in the order of the keys, and for each part of the tree that cannot be read."""
        for key, page, at, fault in self._leaves():
            yield Node(key, fault=fault, is_lost=True) if fault else self._node(key, page, at)

    def _read_meta(self) -> tuple[tuple[int, int], int]:
        """Return (flags, root page) of the main database in the newer of the two meta pages, and the page size in bytes."""
        first = self._meta(0)
        if first is None:
            raise SourceError(f"{self._name} is no LMDB environment: {_ADVICE}")
        # The list of free pages is stored as a database, whose padding field holds the page size.
        page_bytes = _DATABASE.unpack(first[4])[0]
        if page_bytes < 256 or page_bytes > 1 << 16 or page_bytes & (page_bytes - 1):
            raise SourceError(
                f"{self._name} says that its pages have {page_bytes} bytes: {_ADVICE}"
            )
        second = self._meta(page_bytes)
        newest = max((meta for meta in (first, second) if meta), key=lambda meta: int(meta[7]))
        _, flags, _, _, _, _, _, root = _DATABASE.unpack(newest[5])
        return (flags, root), page_bytes

    def _meta(self, start: int) -> tuple[int, int, int, int, bytes, bytes, int, int] | None:
        data = self._content[start + _HEADER.size : start + _HEADER.size + _META.size]
        if len(data) < _META.size:
            return None
        meta = _META.unpack(data)
        return meta if meta[:2] == (_MAGIC, _VERSION) else None

    def _subtrees(self, wanted: str | None) -> dict[str, tuple[int, int]]:
        """Return (flags, root page) of each named database, by name.

        If `wanted` is None and the main database holds other values too, the result is empty.
        """
        found: dict[str, tuple[int, int]] = {}
        for key, page, at, fault in self._leaves():
            if fault:
                continue
            _, _, flags, key_bytes = _NODE.unpack_from(page, at)
            start = at + _NODE.size + key_bytes
            if flags & _SUBTREE and start + _DATABASE.size <= len(page):
                _, kind, _, _, _, _, _, root = _DATABASE.unpack_from(page, start)
                found[key.decode("utf-8", "surrogateescape")] = (kind, root)
            elif wanted is None:
                return {}
        return found

    def _leaves(self) -> Iterator[tuple[bytes, Payload, int, str]]:
        """Yield (key, page, offset in the page, fault) of each leaf node; a fault stands for a part that cannot be read."""
        if self._root == _NO_PAGE:
            return
        if self._flags & _SORTED_DUPLICATES:
            raise SourceError(
                f"{self._name} keeps several values under a key (DUPSORT): write one value per key"
            )
        num_pages = len(self._content) // self._page_bytes
        met = bytearray(num_pages // 8 + 1)  # a bit for each page, so that none is walked twice
        stack = [(self._root, 0)]
        while stack:
            number, depth = stack.pop()
            page, flags, offsets = self._page(number)
            if not page or depth > _MAX_DEPTH:
                fault = f"{self._name} is damaged or cut off at byte {number * self._page_bytes}"
                yield b"(page %d)" % number, b"", 0, f"{fault}: the keys there cannot be found"
                continue
            if flags & _BRANCH:
                children = []
                for at in offsets:
                    child = self._child(page, at)
                    if child < num_pages and not met[child >> 3] >> (child & 7) & 1:
                        met[child >> 3] |= 1 << (child & 7)
                        children.append(child)
                if len(children) < len(offsets):  # one fault for all bad links of the page
                    fault = f"{self._name} is damaged: page {number} leads out of it, or to pages known before"
                    yield b"(page %d)" % number, b"", 0, fault
                stack.extend((child, depth + 1) for child in reversed(children))
                continue
            for at in offsets:
                key_bytes = _NODE.unpack_from(page, at)[3]
                yield self._key(page[at + _NODE.size : at + _NODE.size + key_bytes]), page, at, ""

    def _page(self, number: int) -> tuple[Payload, int, tuple[int, ...]]:
        """Return a page, its flags, and the offsets of its nodes; an empty page if it is damaged or missing."""
        page = self._content[number * self._page_bytes : (number + 1) * self._page_bytes]
        if len(page) < self._page_bytes:
            return b"", 0, ()
        stored, _, flags, lower, upper = _HEADER.unpack_from(page)
        whole = stored == number and _HEADER.size <= lower <= upper <= self._page_bytes
        if not whole or flags & (_BRANCH | _LEAF | _OVERFLOW) not in (_BRANCH, _LEAF):
            return b"", 0, ()
        offsets = struct.unpack_from(f"<{(lower - _HEADER.size) // 2}H", page, _HEADER.size)
        if any(offset + _NODE.size > self._page_bytes for offset in offsets):
            return b"", 0, ()
        return page, flags, offsets

    def _child(self, page: Payload, at: int) -> int:
        low, middle, high, _ = _NODE.unpack_from(page, at)
        return int(low | middle << 16 | high << 32)

    def _key(self, key: Payload) -> bytes:
        if self._flags & _INTEGER_KEYS:
            return b"%d" % int.from_bytes(key, "little")
        return bytes(key)

    def _node(self, key: bytes, page: Payload, at: int) -> Node:
        low, high, flags, key_bytes = _NODE.unpack_from(page, at)
        size, offset = low | high << 16, at + _NODE.size + key_bytes
        if flags & (_SUBTREE | _DUPLICATES):
            return Node(key, fault="the value is a database or several values, not one")
        if not flags & _ELSEWHERE:
            start = _HEADER.unpack_from(page)[0] * self._page_bytes + offset
            inside = offset + size <= len(page)
        else:
            if offset + _PAGE_NUMBER.size > len(page):
                return Node(
                    key, fault=f"{self._name} is damaged where the value's page number stands"
                )
            (number,) = _PAGE_NUMBER.unpack_from(page, offset)
            start = number * self._page_bytes + _HEADER.size
            inside = start + size <= len(self._content)
            if inside:
                header = self._content[start - _HEADER.size : start]
                stored, _, kind, _, _ = _HEADER.unpack(header)
                inside = stored == number and kind == _OVERFLOW
        if not inside:
            return Node(key, fault=f"{self._name} is cut off or damaged where the value should be")
        return Node(key, start, start + size)
