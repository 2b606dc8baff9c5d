"""The walk over a tar's headers gives what the standard library gives, whatever the tar is like."""

import io
import tarfile
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from readers.formats.tar import walk as tar_walk
from readers.formats.tar.walk import stored_files
from tests.support.tars import with_header

Found = list[tuple[str, int, int, bool, int]]
BLOCK = 512
LONG = "/".join(["a-rather-long-folder-name-to-fill-the-header"] * 6)


def by_tarfile(data: bytes) -> Found:
    """The members that tarfile finds, and where its walk stands behind each."""
    found: Found = []
    with tarfile.TarFile(
        fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape"
    ) as archive:
        try:
            while (member := archive.next()) is not None and member.size >= 0:
                name = member.name if member.isreg() else ""
                start = member.offset_data
                place = archive.offset  # type: ignore[attr-defined]
                found.append((name, start, start + member.size, member.issparse(), place))
        except (tarfile.TarError, ValueError):
            pass
    return found


def by_us(data: bytes) -> Found:
    """What our walk finds where it follows no links, as tarfile does not."""
    found = stored_files(memoryview(data), links=False)
    return [(name, start, stop, bool(fault), place) for name, start, stop, fault, place in found]


def both(data: bytes) -> tuple[Found | str, Found | str]:
    """What each finds, or the text of its error."""

    def outcome(walk: Callable[[], Found]) -> Found | str:
        try:
            return walk()
        except tarfile.TarError as error:
            return str(error)

    return outcome(lambda: by_us(data)), outcome(lambda: by_tarfile(data))


def member(name: str, size: int = 0, **attributes: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = size
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info, bytes(range(256)) * (size // 256 + 1)


def packed(kind: int, members: list[tuple[tarfile.TarInfo, bytes]], **options: object) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=kind, errors="surrogateescape", **options
    ) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


PLAIN = [
    member("0001.jpg", 700),
    member("0001.cls", 1, uid=2_000_000, gid=70, mode=0o100, uname="ü", mtime=1_700_000_000),
    member("folder", type=tarfile.DIRTYPE),
    member("folder/0002.jpg", 512),
    member("folder/0002.txt"),
    member("0003.jpg", type=tarfile.SYMTYPE, linkname="0001.jpg"),
    member("0004.jpg", type=tarfile.LNKTYPE, linkname="0001.jpg"),
    member("0005.dev", type=tarfile.CHRTYPE, devmajor=3, devminor=4),
    member("ünï.jpg", 30),
    member("bad-\udcff\udc80.jpg", 30),
    member("0006.jpg", 5),
]
MORE = [
    member(f"{LONG}/0007.jpg", 600),
    member("x" * 99 + "/" + "y" * 90 + ".jpg", 7),
    member("0008.jpg", 9, mtime=1234.5678, uname="u" * 50, gid=10**9),
    member("0009.jpg", 9, type=tarfile.LNKTYPE, linkname="l" * 200),
    member("0010.jpg", 600, pax_headers={"comment": "two\nlines", "SCHILY.xattr.user": "x"}),
    member("0011.jpg", 600, pax_headers={"mtime": "1.5", "path": "other/0011.jpg/"}),
    member("0012.jpg", 600, pax_headers={"size": "100"}),
    member("0013.jpg", 40, pax_headers={"path": "ü" * 300}),
    member("0014.jpg", 2),
]


def odd_tars() -> Iterator[tuple[str, bytes]]:
    for kind, name in (
        (tarfile.USTAR_FORMAT, "ustar"),
        (tarfile.GNU_FORMAT, "gnu"),
        (tarfile.PAX_FORMAT, "pax"),
    ):
        files = PLAIN if kind == tarfile.USTAR_FORMAT else PLAIN + MORE
        if kind == tarfile.PAX_FORMAT:
            files = [file for file in files if "\udcff" not in file[0].name]
        else:
            files = [file for file in files if not isinstance(file[0].mtime, float)]
        yield name, packed(kind, files)
    plain = packed(tarfile.USTAR_FORMAT, PLAIN)
    second = 1536  # header of the second file
    yield "sticky names", packed(tarfile.USTAR_FORMAT, [member("p" * 90 + "/" + "n" * 100)] * 3)
    yield "global headers", packed(tarfile.PAX_FORMAT, PLAIN[:5], pax_headers={"comment": "hash"})
    yield "global path", packed(tarfile.PAX_FORMAT, PLAIN[:5], pax_headers={"path": "all.jpg"})
    yield "global size", packed(tarfile.PAX_FORMAT, PLAIN[:5], pax_headers={"size": "3"})
    yield "two archives", plain + plain
    yield "no end", plain[: len(plain) // 10240 * 10240 - 2048]
    for name, edits in {
        "old type": {156: b"\0"},
        "old folder": {0: b"folder/\0\0", 156: b"\0"},
        "unknown type": {156: b"Z"},
        "contiguous": {156: b"7"},
        "no magic": {257: bytes(8)},
        "prefix": {345: b"pre/fix"},
        "empty prefix": {345: b"\0later"},
        "spaces": {100: b"  644 \0 ", 124: b"      12345 "},
        "no numbers": {100: bytes(24), 136: bytes(12), 329: bytes(16)},
        "bad mode": {100: b"zzzzzzz\0"},
        "bad size": {124: b"99999999999\0"},
        "bad device": {329: b"zzzzzzz\0"},
        "negative size": {124: (-2048).to_bytes(12, "big", signed=True)},
        "binary size": {124: b"\x80" + (1).to_bytes(11, "big")},
        "huge size": {124: b"77777777777\0"},
        "no name": {0: bytes(100)},
        "extended": {156: b"x"},
        "long name": {156: b"L"},
        "sparse": {156: b"S", 386: b"00000000000\0" + b"00000000001\0", 483: b"00000000001\0"},
    }.items():
        yield name, with_header(plain, second, edits)


ODD = dict(odd_tars())


@pytest.mark.parametrize("name", ODD)
def test_every_kind_of_tar(name: str) -> None:
    """Names, places, and where the walk ends."""
    ours, theirs = both(ODD[name])

    assert ours == theirs
    assert theirs


@pytest.mark.parametrize("name", ["ustar", "gnu", "pax", "global headers"])
def test_cut_off_anywhere(name: str) -> None:
    """A tar that ends within a header, a name, a record or a file."""
    data = ODD[name]
    for cut in [*range(0, len(data), 173), *range(0, len(data), BLOCK)]:
        ours, theirs = both(data[:cut])

        assert ours == theirs, cut


@pytest.mark.parametrize("name", ["ustar", "gnu", "pax"])
def test_garbage_anywhere(name: str) -> None:
    """Bytes that were changed, with a checksum that is right all the same and with one that is not."""
    data = ODD[name]
    generator = np.random.default_rng(0)
    headers = [0, *(end for *_, end in by_tarfile(data))][:-1]
    for number in range(300):
        place = int(generator.choice(headers))
        offset, length = int(generator.integers(BLOCK)), int(generator.integers(1, 12))
        alphabet = [b"\0 01234567", b"xgLKSV057\0", bytes(range(256))][number % 3]
        value = bytes(generator.choice(list(alphabet), length).tolist())[: BLOCK - offset]
        if number % 2:
            garbled = with_header(data, place, {offset: value})
        else:
            garbled = data[: place + offset] + value + data[place + offset + len(value) :]
        ours, theirs = both(garbled)

        assert ours == theirs, (place, offset, value)


def test_plain_headers_are_read_without_tarfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the comparisons above compare tarfile with itself."""
    calls = []
    slowly = tar_walk._read_any
    monkeypatch.setattr(tar_walk, "_read_any", lambda *given: calls.append(given) or slowly(*given))
    times = packed(tarfile.PAX_FORMAT, [member(f"{n}.jpg", n, mtime=n + 0.5) for n in range(99)])
    ustar = packed(tarfile.USTAR_FORMAT, [member(f"{n}.jpg", n) for n in range(99)])
    for data in (ustar, times):
        assert len(list(stored_files(memoryview(data)))) == 99

    assert len(calls) == 4  # the first header of each, and its end
