"""Forward-only tars give what the webdataset package reads from the same bytes, and say what is lost."""

import bz2
import gzip
import lzma
import os
import pickle
import random
import shlex
import sys
import tarfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from unittest.mock import create_autospec

import pytest

import readers.storage.remote.options as remote_options
from dali_pipes import Clips, Loader, LoaderError
from gpu_aug import RandomResizedCrop, Recipe
from readers import BadSample, Sample, SourceError
from readers.formats.stream import TarStream
from readers.formats.stream.forward import StoredFile, zstd_library
from tests.support.annotated import put
from tests.support.opening import assert_refused
from tests.support.s3_server import Storage, storage
from tests.support.tars import by_webdataset, tar_of, with_header

Entry = Sample | BadSample

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tgz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
}
# Names that are easy to take apart wrongly, among samples of two fields.
FILES = [
    ("n01/a.jpg", b"first" * 500),
    ("n01/a.cls", b"3\n"),
    ("n01/b.c.JPG", b"second" * 700),
    ("n01/b.CLS", b" 12"),
    ("n02/b.jpg", b""),
    ("__meta__/x.json", b"{}"),
    ("readme", b"no field, so no sample"),
    (".hidden", b"no key"),
    ("deep.er/d.jpg", b"\x00" * 512),
    ("ä" * 120 + ".jpg", b"a name that needs a header of its own"),
    ("x.cls", b" 7\n"),
]


def numbered(count: int, size: int = 900) -> list[tuple[str, bytes]]:
    return [
        (f"{number:03d}.{field}", content)
        for number in range(count)
        for field, content in (("jpg", b"%03d" % number * (size // 3)), ("cls", b"%d" % number))
    ]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def told(
    entries: Iterator[Entry] | TarStream,
) -> list[tuple[int, str, dict[str, bytes] | str, int]]:
    return [
        (entry.index, entry.key, entry.reason, -2)
        if isinstance(entry, BadSample)
        else (
            entry.index,
            entry.key,
            {name: bytes(data) for name, data in entry.fields.items()},
            entry.label,
        )
        for entry in entries
    ]


def keys_and_fields(entries: list[Sample]) -> list[tuple[str, dict[str, bytes]]]:
    return [(key, fields) for _, key, fields, _ in told(iter(entries))]


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_agrees_with_webdataset(tmp_path: Path, ending: str, format: int) -> None:
    """Keys, fields, bytes and order are those of the webdataset package, over several files."""
    compress = COMPRESSIONS[ending]
    shards = [
        write(tmp_path / f"a.{ending}", compress(tar_of(FILES, format=format))),
        write(tmp_path / f"b.{ending}", compress(tar_of(numbered(5), format=format))),
    ]
    entries = list(TarStream(shards))

    assert keys_and_fields(entries) == by_webdataset(*shards)
    assert [entry.index for entry in entries] == list(range(11))
    assert [entry.label for entry in entries][:6] == [3, 12, -1, -1, -1, 7]


def test_patterns_and_lists(tmp_path: Path) -> None:
    """Braces stand for several files, and several sources follow one another."""
    for number in range(3):
        write(tmp_path / f"t-{number:02d}.tgz", gzip.compress(tar_of([(f"{number}.txt", b"")])))
    pattern = f"{tmp_path}/t-{{00..02}}.tgz"
    keys = [entry.key for entry in TarStream([pattern, tmp_path / "t-01.tgz"])]

    assert keys == ["t-00.tgz/0", "t-01.tgz/1", "t-02.tgz/2", "t-01.tgz/1"]


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz"])
def test_iterate_from_a_place(tmp_path: Path, ending: str) -> None:
    """From any place on, the rest is the rest of what comes from the beginning, losses counted."""
    compress = COMPRESSIONS[ending]
    broken = tar_of(numbered(4, 3_000_000 if ending == "tar" else 3000))
    twice = [("t.jpg", b"1"), ("t.jpg", b"2")]
    stream = TarStream(
        [
            write(tmp_path / f"a.{ending}", compress(broken[: int(len(broken) * 0.6)])),
            write(tmp_path / f"b.{ending}", compress(tar_of(FILES + twice))),
        ]
    )
    whole = told(stream)

    assert {type(fields) for _, _, fields, _ in whole} == {dict, str}
    assert [index for index, *_ in whole] == list(range(len(whole)))
    for start in range(len(whole) + 2):
        assert told(stream.iterate(start)) == whole[start:]
    with pytest.raises(ValueError, match="start must be >= 0, got -1"):
        stream.iterate(-1)


def test_what_lies_before_the_start_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the samples that are given have their content taken out of the tar."""
    stream = TarStream(write(tmp_path / "a.tar", tar_of(numbered(9))))
    counted = create_autospec(StoredFile.read, side_effect=StoredFile.read)
    monkeypatch.setattr(StoredFile, "read", counted)

    assert len(list(stream.iterate(7))) == 2
    assert [call.args[0].key for call in counted.call_args_list] == ["007", "007", "008", "008"]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_cut_off(tmp_path: Path, ending: str) -> None:
    """What comes before the cut is given, one bad sample stands for the loss, and the next tar follows."""
    # The blocks of bzip2 are the largest, 900 kB: of fewer bytes nothing would come before the cut.
    size = 250_000 if ending == "tar.bz2" else 30_000
    files = [(f"{number}.jpg", random.Random(number).randbytes(size)) for number in range(6)]
    compressed = COMPRESSIONS[ending](tar_of(files))
    first = write(tmp_path / f"a.{ending}", compressed[: len(compressed) * 4 // 5])
    second = write(tmp_path / f"b.{ending}", compressed)
    entries = list(TarStream([first, second]))
    [bad] = [entry for entry in entries if isinstance(entry, BadSample)]
    expected = [fields for _, fields in by_webdataset(second)]

    assert [entry.index for entry in entries] == list(range(len(entries)))
    assert bad.reason.startswith(f"a.{ending}: it ")
    assert str(tmp_path) not in bad.reason
    assert bad.index > 0
    assert [entry.fields for entry in entries if entry is not bad] == [
        *expected[: bad.index],
        *expected,
    ]


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_damaged_header(tmp_path: Path, ending: str) -> None:
    """A header that is none is noticed, where the webdataset package ends without a word."""
    damaged = bytearray(tar_of(numbered(6)))
    damaged[damaged.index(b"003.jpg")] ^= 0xFF
    path = write(tmp_path / f"a.{ending}", COMPRESSIONS[ending](bytes(damaged)))
    *samples, bad = TarStream(path)

    assert [sample.key[-3:] for sample in samples] == ["000", "001"]
    assert "is damaged at byte 7680: what lies behind it cannot be found" in bad.reason
    assert len(by_webdataset(path)) == 3  # of six, the last of them whole by luck


def test_flipped_bit_in_compressed_data(tmp_path: Path) -> None:
    """The checksum of gzip is looked at, although the tar ends before it."""
    compressed = bytearray(gzip.compress(tar_of(numbered(2)), compresslevel=0))
    compressed[compressed.index(b"001001001")] ^= 1
    good, bad = TarStream(write(tmp_path / "a.tar.gz", bytes(compressed)))

    assert isinstance(good, Sample)
    assert "CRC check failed" in bad.reason


def test_gzip_members_follow_one_another(tmp_path: Path) -> None:
    """What pigz and bgzip write, several gzip streams in one file, is one tar."""
    whole = tar_of(numbered(6))
    parts = [gzip.compress(whole[at : at + 1000]) for at in range(0, len(whole), 1000)]
    path = write(tmp_path / "a.tar.gz", b"".join(parts))

    assert len(told(TarStream(path))) == 6


def test_tar_without_samples_is_not_passed_over_silently(tmp_path: Path) -> None:
    """Whoever packed files without extensions hears of it."""
    path = write(tmp_path / "a.tar", tar_of([("readme", b"text")]))

    assert told(TarStream(path)) == [
        (0, "a.tar", "a.tar: it holds no samples, whose files are named KEY.EXTENSION", -2)
    ]


def test_sparse_and_doubled_files_take_no_neighbour(tmp_path: Path) -> None:
    """A field that is stored twice makes its sample bad, and no other."""
    path = write(
        tmp_path / "a.tar", tar_of([("a.x", b"1"), ("b.x", b"2"), ("b.X", b"3"), ("c.x", b"4")])
    )
    first, second, third = TarStream(path)

    assert [type(one) for one in (first, third)] == [Sample, Sample]
    assert second == BadSample(1, "a.tar/b", "read", "the field x is stored twice")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tar.gz", None, "is not a file: correct the pattern"),
        ("a.tar", b"", r"is empty \(0 bytes\)"),
        ("a.tar", b"text" * 300, "is not a tar file"),
        ("a.tgz", gzip.compress(b"text" * 300, mtime=0), "is not a tar file"),
        ("a.tgz", b"\x1f\x8b" + b"text" * 300, "is not a tar file"),
        ("a.tar", bytes(10240), "is not a tar file"),
    ],
)
def test_bad_sources_are_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    """What is no tar is told when the stream is made, before a run begins."""
    if content is not None:
        write(tmp_path / name, content)

    assert_refused(f"{tmp_path / name} {message}", tmp_path / name, by=TarStream)
    assert_refused("the list of sources is empty", [], by=TarStream)


def test_commands_run_only_when_allowed(tmp_path: Path) -> None:
    """A command is refused before anything of it ran."""
    path = write(tmp_path / "a.tar", tar_of(numbered(3)))
    command = f"pipe:touch {tmp_path}/ran; cat {path}"

    assert_refused(
        "runs a command: say allow_pipe=True if you trust", ["b.tar", command], by=TarStream
    )
    assert not (tmp_path / "ran").exists()
    keys = [entry.key for entry in TarStream(command, allow_pipe=True)]
    assert keys == ["pipe-0/000", "pipe-0/001", "pipe-0/002"]
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "message", "keys"),
    [
        ("head -c 9000 {}; exit 3", r"head -c 9000 .*failed \(exit code 3\)", ["000", "001", "002"]),
        ("no-such-command 2>/dev/null", r"failed \(exit code 127\)", []),
    ],
)  # fmt: skip
def test_command_that_fails_is_an_error(
    tmp_path: Path, command: str, message: str, keys: list[str]
) -> None:
    """Samples that came before are given; then the exit code is told, not swallowed."""
    path = write(tmp_path / "a.tar", tar_of(numbered(8)))
    given = []

    with pytest.raises(SourceError, match=message):
        given.extend(e.key for e in TarStream(f"pipe:{command.format(path)}", allow_pipe=True))
    assert given == [f"pipe-0/{key}" for key in keys]


def test_command_that_is_cut_off_but_says_it_succeeded(tmp_path: Path) -> None:
    """The loss is a bad sample then, and a command that writes no tar is not waited for."""
    path = write(tmp_path / "a.tar", tar_of(numbered(8)))
    entries = list(TarStream([f"pipe:head -c 9000 {path}", "pipe:yes"], allow_pipe=True))

    assert [type(entry) for entry in entries] == [Sample] * 3 + [BadSample] * 2
    assert "cut off at byte 9000, within 003.jpg" in entries[3].reason
    assert "not a tar file" in entries[4].reason


def test_leaving_early_ends_the_command(tmp_path: Path) -> None:
    """Whoever takes two samples leaves no command behind."""
    path = write(tmp_path / "a.tar", tar_of(numbered(8)))
    script = f"import os,sys,time; print(os.getpid(), file=open({str(tmp_path / 'pid')!r}, 'w'))\n"
    script += f"sys.stdout.buffer.write(open({str(path)!r}, 'rb').read()[:9000]); sys.stdout.flush(); time.sleep(99)"
    command = f"pipe:{shlex.join([sys.executable, '-c', script])}; true"
    iterator = TarStream(command.replace("{", "{{"), allow_pipe=True).iterate()

    assert len(list(islice(iterator, 2))) == 2
    iterator.close()
    status = Path("/proc", (tmp_path / "pid").read_text().strip(), "status")
    for _ in range(6000):  # until its parent, which is init by now, has taken note
        if not status.exists() or "(zombie)" in status.read_text():
            return
        time.sleep(0.01)
    pytest.fail("the command is still running")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A server of the test's folder without range requests."""
    pytest.importorskip("obstore")
    options = remote_options.StorageOptions(retries=1, timeout_seconds=5, deadline_seconds=10)
    monkeypatch.setattr(remote_options, "_default", options)
    with storage(tmp_path, "--no-ranges") as running:
        yield running


def test_urls(tmp_path: Path, server: Storage) -> None:
    """Files on a server are read in one go; what is missing is one bad sample, not the end."""
    plain = write(tmp_path / "a.tar", tar_of(numbered(3)))
    packed = write(tmp_path / "b.tgz", gzip.compress(tar_of(FILES)))
    entries = list(TarStream([f"{server.url}/{name}" for name in ("a.tar?x=1", "c.tar", "b.tgz")]))
    bad = entries.pop(3)

    assert keys_and_fields(entries) == by_webdataset(plain, packed)
    assert bad.key == "c.tar/(byte 0)"
    assert "there is no such object" in bad.reason


def test_connection_that_breaks(tmp_path: Path, server: Storage) -> None:
    """An answer that is shorter than it promised is a loss, even where the tar could have ended."""
    write(tmp_path / "short.tar", tar_of(numbered(6, 512 * 3 - 510)))
    server.faults(rate=1, kinds=("truncate",))
    *samples, bad = TarStream(f"{server.url}/short.tar")

    assert all(isinstance(sample, Sample) for sample in samples)
    assert isinstance(bad, BadSample)


def test_a_loader_cannot_shuffle_streams_as_a_whole(tmp_path: Path) -> None:
    """The error says which orders there are; clips cannot be taken of them at all."""
    stream = TarStream(write(tmp_path / "a.tar", tar_of(numbered(3))))

    with pytest.raises(LoaderError, match=r'"global" needs random access, .* give shuffle="block"'):
        Loader(stream, Recipe([RandomResizedCrop(8)]), batch_size=2, device="cpu")
    with pytest.raises(LoaderError, match=r"can only be read from front to back.* gpu-aug pack"):
        Clips(stream, num_frames=2, stride=1)  # type: ignore[arg-type]


def test_damage_anywhere_is_told(tmp_path: Path) -> None:
    """Whatever byte is damaged: nothing raises, numbers have no gap, and every start gives the same rest."""
    rng = random.Random(0)
    sound = tar_of(FILES + numbered(3), format=tarfile.PAX_FORMAT)
    starts = range(0, len(sound), 512)
    headers = [at for at in starts if sound[at + 257 : at + 262] == b"ustar"]
    for number in range(120):
        content = bytearray(sound)
        # Headers are where damage has consequences.
        start = rng.choice(headers if number % 3 else starts)
        content[start + rng.randrange(512)] ^= 1 << rng.randrange(8)
        if number % 3 == 2:  # and those whose checksum fits nevertheless
            content = with_header(bytes(content), start, {})
        packed = bytes(content) if number % 2 else gzip.compress(bytes(content), 1)
        try:
            stream = TarStream(write(tmp_path / f"{number}.tar", packed))
        except SourceError:
            assert start == 0
            continue
        whole = told(stream)
        assert [index for index, *_ in whole] == list(range(len(whole)))
        assert told(stream.iterate(4)) == whole[4:]


def test_zstd_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    path = write(tmp_path / "a.tar.zst", b"\x28\xb5\x2f\xfd" + bytes(100))

    assert_refused(r"needs? .*zstandard|package zstandard.*gpu-aug\[zstd\]", path, by=TarStream)


def test_zstd(tmp_path: Path) -> None:
    """What zstd compressed is read like the rest."""
    if sys.version_info >= (3, 14):
        compress = zstd_library().compress
    else:
        zstandard: types.ModuleType = pytest.importorskip("zstandard")
        compress = zstandard.ZstdCompressor().compress
    photos = [(f"{number}.jpg", random.Random(number).randbytes(250_000)) for number in range(4)]
    content, half = tar_of(FILES + photos), 5120
    frames = compress(content[:half]) + compress(content[half:])
    whole = TarStream(write(tmp_path / "a.tar.zst", frames))
    plain = TarStream(write(tmp_path / "a.tar", content))
    cut = TarStream(write(tmp_path / "cut.tar.zst", frames[: len(frames) // 2]))

    assert [entry[2:] for entry in told(whole)] == [entry[2:] for entry in told(plain)]
    *samples, bad = told(cut)
    assert [entry[2:] for entry in samples] == [entry[2:] for entry in told(plain)][: len(samples)]
    assert "cut off" in bad[2]


def test_named_pipe_is_read(tmp_path: Path) -> None:
    """What another program writes into a named pipe is a source."""
    os.mkfifo(tmp_path / "fifo.tar")
    thread = threading.Thread(target=write, args=(tmp_path / "fifo.tar", tar_of(numbered(3))))
    thread.start()
    keys = [entry.key for entry in TarStream(tmp_path / "fifo.tar")]
    thread.join()

    assert keys == ["fifo.tar/000", "fifo.tar/001", "fifo.tar/002"]


def test_fingerprint_and_pickling(tmp_path: Path) -> None:
    """The fingerprint knows names and sizes, and not where the files lie."""
    for place, count in (("here", 3), ("there", 3), ("else", 40)):
        put(tmp_path, {f"{place}/a.tar": tar_of(numbered(count))})
    here, there, other = (
        TarStream(tmp_path / name / "a.tar") for name in ("here", "there", "else")
    )

    assert here.fingerprint == there.fingerprint != other.fingerprint
    assert len(here.fingerprint) == 32
    assert told(pickle.loads(pickle.dumps(here))) == told(here)
