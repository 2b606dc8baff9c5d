"""Names of files in one piece of memory: what goes in comes out, and processes share it."""

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from readers.formats.files import FileDataset, Names

# The second list has names that no file has, and one whose bytes are another name's as well.
PLAIN = ["a/0.jpg", "ä/é 😀.png", "\udcff.jpg", "line\nbreak.jpg", "x" * 300, "\udcc3.jpg", "ä.jpg"]
ODD = ["a\0b.jpg", "\0", "\0\0a", "b\0", "\ud800.jpg", "\udcc3\udca4.jpg", "\ud83d\ude00", ""]
NAMES = [*PLAIN, *ODD, *PLAIN[::-1]]


@pytest.mark.parametrize("names", [NAMES, PLAIN, ODD, NAMES * 400, [""], []], ids=len)
def test_names_come_back(names: list[str]) -> None:
    """Whatever a str can hold, one by one, in slices, all of them, and any of them in any order."""
    packed = Names(iter(names))

    assert len(packed) == len(names)
    assert [*packed] == names
    assert [packed[number] for number in range(len(names))] == names
    assert (packed[::-1], packed[1:4]) == (names[::-1], names[1:4])
    order = np.random.default_rng(0).permutation(len(names))
    assert (packed.take(order), packed.take([])) == ([names[number] for number in order], [])
    for index in (len(names), -len(names) - 1):
        with pytest.raises(IndexError):
            packed[index]


def test_paths_are_those_of_the_operating_system() -> None:
    """Each is followed by a zero byte; a name that no file has is marked."""
    order = [*range(len(NAMES))][::-1]
    paths, starts, good = Names(NAMES).paths("/d\udcfe/ö/", np.array(order))

    assert [NAMES[number] for number in np.array(order)[~good]] == ODD[::-1]
    assert paths.count(0) == len(NAMES)
    for number, start, is_good in zip(order, starts, good, strict=True):
        assert start == 0 or paths[start - 1] == 0
        path = paths[start : paths.index(0, start)]
        assert path == os.fsencode("/d\udcfe/ö/" + (NAMES[number] if is_good else ""))
    for folder in ("/a\0b/", "/\ud800/"):
        assert not Names(PLAIN).paths(folder, np.arange(len(PLAIN)))[2].any()
    assert not len(Names(PLAIN).paths("/a/", np.arange(0))[1])


def test_identities_are_those_of_a_list(tmp_path: Path) -> None:
    """The bytes that are hashed are the same as ever, also where names hold zero bytes."""
    names = [name for name in NAMES if name not in ("", "\ud800.jpg", "\ud83d\ude00")]
    data = FileDataset(tmp_path, names, range(len(names)))
    encoded = [name.encode("utf-8", "surrogateescape") for name in names]
    folder = b"files %s\n" % os.fsencode(tmp_path)
    lines = [b"%s\0-1\0%d\n" % (name, row) for row, name in enumerate(encoded)]

    assert (
        data.cache_identity == hashlib.sha256(folder + b"\0".join([*encoded, b""])).hexdigest()[:32]
    )
    assert data.fingerprint == hashlib.sha256(b"".join(lines)).hexdigest()[:32]
    assert data.keys() == names
    assert [entry.key for entry in data.fetch(range(len(names)))] == names


def test_processes_share_them() -> None:
    """Helper processes are told of arrays alone, and a name takes 8 bytes more than its own and one."""
    names = [f"class/{number:06}.jpg" for number in range(1000)]
    data = FileDataset(Path("/data"), names, np.zeros(len(names)))
    arrays: list[pickle.PickleBuffer] = []
    told = pickle.dumps(data, protocol=5, buffer_callback=arrays.append)

    assert len(told) < 1000
    assert sum(len(array.raw()) for array in arrays) == 1000 * (len(names[0]) + 1 + 8 + 8) + 8
    loaded = pickle.loads(told, buffers=[bytes(array.raw()) for array in arrays])
    assert loaded.keys() == names
    assert loaded.locate(np.array([7]), bool).paths == b"/data/class/000007.jpg\0"
    assert pickle.loads(pickle.dumps(data)).fingerprint == data.fingerprint
