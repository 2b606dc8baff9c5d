"""`gpu-aug pack`: WebDataset shards of anything, whole and without doubles however often it is killed."""

import errno
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from webdataset.tariterators import group_by_keys, tar_file_expander

from bench.cli import main
from dali_pipes.decode.check import CHECKS
from dali_pipes.jpeg.tiling.tile import tile_jpeg
from readers import BadSample, FolderDataset, Order, Sample, open_dataset
from readers.prepare import PrepareError, inspect, pack, packing
from readers.prepare.atomic_files import locked
from readers.prepare.packer import Packed, Packer, header
from readers.prepare.packing import size_from
from readers.prepare.workers import Processes
from tests.support.memory import peak_bytes

Jpeg = Callable[..., bytes]
Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls the command line; gives its exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code: object = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        assert isinstance(code, int)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def source(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Three class folders with eight photographs each, one of them with a mask and a description."""
    folder = tmp_path / "source"
    for place, name in enumerate(("cats", "dogs", "owls")):
        (folder / name).mkdir(parents=True)
        for number in range(8):
            (folder / name / f"{number}.jpg").write_bytes(jpeg(60, 90, seed=8 * place + number))
    (folder / "dogs" / "3.json").write_text('{"boxes": []}')
    Image.new("L", (90, 60)).save(folder / "dogs" / "3.mask.png")
    return folder


def shards_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tar"))


def by_webdataset(folder: Path) -> list[dict[str, bytes]]:
    with ExitStack() as stack:  # webdataset itself leaves its files open
        shards = [
            {"url": shard.name, "stream": stack.enter_context(shard.open("rb"))}
            for shard in shards_in(folder)
        ]
        samples = list(group_by_keys(tar_file_expander(shards)))
    return [
        {name: data for name, data in sample.items() if name == "__key__" or "__" not in name}
        for sample in samples
    ]


def samples_of(folder: Path) -> list[Sample]:
    dataset = open_dataset(folder)
    samples = dataset.fetch(range(len(dataset)))
    assert all(isinstance(sample, Sample) for sample in samples)
    return [sample for sample in samples if isinstance(sample, Sample)]


def content(folder: Path) -> dict[str, bytes]:
    """Shards and manifest; an index holds the time at which its shard was written."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".tar", ".json")
    }


def test_class_folders_become_shards_with_labels(run: Run, source: Path, tmp_path: Path) -> None:
    """Webdataset and our reader find every field of every sample, byte for byte, and the class numbers."""
    code, printed, _ = run("pack", source, tmp_path / "out", "--shard-size", "30kB")

    expected = samples_of(source)
    found = by_webdataset(tmp_path / "out")
    assert code == 0
    assert "24 samples in" in printed
    assert [sample["__key__"] for sample in found] == [
        sample.key.removesuffix(".jpg") for sample in expected
    ]
    for sample, packed in zip(expected, found, strict=True):
        fields = {name: bytes(data) for name, data in sample.fields.items()}
        assert packed == {"__key__": packed["__key__"], **fields, "cls": b"%d" % sample.label}
    assert [list(sample) for sample in found if "json" in sample] == [
        ["__key__", "jpg", "json", "mask.png", "cls"]
    ]
    ours = samples_of(tmp_path / "out")
    assert [sample.label for sample in ours] == [sample.label for sample in expected]
    assert [sample.size for sample in ours] == [(60, 90)] * 24


def test_webdataset_itself_reads_the_folder(run: Run, source: Path, tmp_path: Path) -> None:
    """The pipeline that users of webdataset write gives pictures and class numbers."""
    run("pack", source, tmp_path / "out")
    code = (
        "import sys, webdataset\n"
        "data = webdataset.WebDataset(sys.argv[1], shardshuffle=False).decode('rgb8')\n"
        "print([(s['jpg'].shape, s['cls']) for s in data])"
    )
    shard = str(tmp_path / "out" / "shard-000000.tar")

    printed = subprocess.run(
        [sys.executable, "-c", code, shard], capture_output=True, text=True, timeout=120, check=True
    ).stdout

    expected = [((60, 90, 3), label) for label in (0, 1, 2) for _ in range(8)]
    assert printed.strip() == str(expected)


def test_indexes_lie_beside_the_shards(run: Run, source: Path, tmp_path: Path) -> None:
    """Opening the shards scans nothing and writes nothing."""
    out = tmp_path / "out"
    run("pack", source, out, "--shard-size", "30kB")
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    open_dataset(out)

    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    names = [shard.name for shard in shards_in(out)]
    assert set(before) == {*names, *(f"{name}.gpuaug-index" for name in names), "manifest.json"}


def test_shards_keep_to_their_size(run: Run, source: Path, tmp_path: Path) -> None:
    """Shards end at the last block of 10 kB that is allowed; a sample that is larger has one of its own."""
    run("pack", source, tmp_path / "out", "--shard-size", "40kB")
    sizes = [shard.stat().st_size for shard in shards_in(tmp_path / "out")]
    run("pack", source, tmp_path / "single", "--shard-size", "1B")

    assert max(sizes) == 30_720
    assert len(sizes) > 2
    assert len(shards_in(tmp_path / "single")) == 24
    assert [shard.name for shard in shards_in(tmp_path / "out")][:2] == [
        "shard-000000.tar",
        "shard-000001.tar",
    ]


def test_shuffle_is_the_order_of_that_seed(run: Run, source: Path, tmp_path: Path) -> None:
    """Samples stand in the order that the loader has in epoch 0 of the seed."""
    run("pack", source, tmp_path / "out", "--shuffle", 5, "--shard-size", "30kB")
    order = Order(24, seed=5).indices(epoch=0, positions=np.arange(24))
    images = [bytes(sample.image or b"") for sample in samples_of(source)]

    found = samples_of(tmp_path / "out")

    assert [bytes(sample.image or b"") for sample in found] == [images[place] for place in order]
    assert [sample.label for sample in found] == [place // 8 for place in order]


def test_workers_do_not_matter(run: Run, source: Path, tmp_path: Path) -> None:
    """One thread and five write the same bytes."""
    for number in (1, 5):
        arguments = ("--workers", number, "--shard-size", "30kB", "--shuffle", 0)
        run("pack", source, tmp_path / str(number), *arguments)

    assert content(tmp_path / "1") == content(tmp_path / "5")


def test_processes_do_not_matter(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker processes write what threads write, byte for byte."""
    options = ("--shard-size", "30kB", "--shuffle", 3, "--tile", "--workers", 2)
    run("pack", source, tmp_path / "threads", *options)
    monkeypatch.setattr(packing, "_NUM_SAMPLES_FOR_PROCESSES", 1)
    run("pack", source, tmp_path / "processes", *options)

    assert content(tmp_path / "processes") == content(tmp_path / "threads")


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [
        ("a.jpg", 0),
        ("n01/" + "x" * 96, 2_000),
        ("n01/" + "x" * 97, 2_000),
        ("ü.jpg", 12_345),
        ("a.jpg", 8**11 - 1),
        ("a.jpg", 8**11),
    ],
)
def test_headers_are_those_of_tarfile(name: str, size_bytes: int) -> None:
    """Plain headers are made without tarfile, and are the same bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o644

    assert header(name, size_bytes) == info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def test_parquet(run: Run, source: Path, tmp_path: Path) -> None:
    """Parquet shards hold the samples as the hub keeps images, and keep to their size."""
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    code, printed, _ = run("pack", source, out, "--format", "parquet", "--shard-size", "30kB")
    shards = sorted(out.glob("*.parquet"))
    rows = [row for shard in shards for row in parquet.read_table(shard).to_pylist()]
    folder = open_dataset(source)
    samples = [entry for entry in folder.fetch(range(24)) if isinstance(entry, Sample)]

    assert code == 0
    assert f"24 samples in {len(shards)} shards" in printed
    assert len(shards) >= 2
    assert [row["image"]["bytes"] for row in rows] == [sample.image for sample in samples]
    assert [row["label"] for row in rows] == [sample.label for sample in samples]
    assert [row["key"] for row in rows][:2] == ["cats/0", "cats/1"]
    assert next(row for row in rows if row.get("json"))["json"] == b'{"boxes": []}'
    assert all(shard.stat().st_size < 50_000 for shard in shards)


def test_parquet_is_what_the_hub_reads(run: Run, source: Path, tmp_path: Path) -> None:
    """Hugging Face datasets sees images, and classes with their names."""
    datasets = pytest.importorskip("datasets")
    run("pack", source, tmp_path / "out", "--format", "parquet")
    [shard] = (tmp_path / "out").glob("*.parquet")
    found = datasets.Dataset.from_parquet(str(shard), cache_dir=str(tmp_path / "cache"))

    assert found.features["label"].names == ["cats", "dogs", "owls"]
    assert found[3]["image"].size == (90, 60)


def test_parquet_is_read_back(run: Run, source: Path, tmp_path: Path) -> None:
    """Our own reader gives the samples that were packed, and the names of their classes."""
    pytest.importorskip("pyarrow")
    run("pack", source, tmp_path / "out", "--format", "parquet", "--shard-size", "30kB")
    folder, packed = open_dataset(source), open_dataset(tmp_path / "out")

    assert packed.class_names == folder.class_names
    for ours, theirs in zip(packed.fetch(range(24)), folder.fetch(range(24)), strict=True):
        assert isinstance(ours, Sample)
        assert isinstance(theirs, Sample)
        assert (ours.label, bytes(ours.image or b"")) == (theirs.label, theirs.image)


def test_forward_only_tars_become_shards(run: Run, source: Path, tmp_path: Path) -> None:
    """A compressed tar is read from front to back; what comes out can be read at random."""
    run("pack", source, tmp_path / "plain")
    [shard] = shards_in(tmp_path / "plain")
    packed = tmp_path / "data.tar.gz"
    packed.write_bytes(gzip.compress(shard.read_bytes()))

    code, printed, _ = run("pack", packed, tmp_path / "out", "--shard-size", "30kB")

    assert code == 0, printed
    assert by_webdataset(tmp_path / "out") == by_webdataset(tmp_path / "plain")
    assert len(shards_in(tmp_path / "out")) > 2
    assert "cannot be: pack it in order" in refused(run, packed, tmp_path / "x", "--shuffle", 1)


def test_tiled_jpegs_have_their_old_pixels(
    run: Run, photos: list[Path], source: Path, tmp_path: Path
) -> None:
    """With --tile the index knows the restart intervals, other fields stay, and reasons are counted."""
    (source / "dogs" / "torn.jpg").write_bytes(photos[0].read_bytes()[:9000])
    for number, photo in enumerate(photos[:3]):
        (source / "owls" / f"photo{number}.jpg").write_bytes(photo.read_bytes())

    code, printed, _ = run("pack", source, tmp_path / "out", "--tile")

    assert code == 0
    tiled = 0
    for old, new in zip(samples_of(source), samples_of(tmp_path / "out"), strict=True):
        before, after = old.image or b"", new.image or b""
        tiled += new.restarts is not None
        if new.restarts is None:
            assert bytes(after) == bytes(before)
        else:
            one, other = (
                cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
                for data in (before, after)
            )
            np.testing.assert_array_equal(one, other)
    assert tiled >= 3
    assert f"tiled: {tiled}; left as they were: {28 - tiled}\n" in printed
    assert "1  truncated" in printed


def test_shards_can_be_packed_anew(run: Run, source: Path, tmp_path: Path) -> None:
    """From shards to shards of another size, keys, fields and labels stay as they are."""
    run("pack", source, tmp_path / "small", "--shard-size", "30kB")
    run("pack", tmp_path / "small", tmp_path / "large")
    run("pack", tmp_path / "small" / "shard-{000000..000001}.tar", tmp_path / "two")

    assert len(shards_in(tmp_path / "large")) == 1
    assert by_webdataset(tmp_path / "large") == by_webdataset(tmp_path / "small")
    two = by_webdataset(tmp_path / "two")
    assert two == by_webdataset(tmp_path / "small")[: len(two)]


def test_lists_are_packed(run: Run, source: Path, tmp_path: Path) -> None:
    """A list file gives the labels that it names, and none where it names none."""
    listed = source.with_name("list.txt")
    listed.write_text("source/dogs/3.jpg 7\nsource/cats/0.jpg\n")
    run("pack", listed, tmp_path / "out")

    assert [(s["__key__"], s.get("cls")) for s in by_webdataset(tmp_path / "out")] == [
        ("source/dogs/3", b"7"),
        ("source/cats/0", None),
    ]


def test_clips_of_a_list_are_packed(run: Run, tmp_path: Path) -> None:
    """Each has the whole video, its seconds, and a key that says which; the shards give the same clips."""
    pytest.importorskip("av")
    from dali_pipes import Clips
    from tests.support.videos import pan, write_video

    write_video(tmp_path / "v.mp4", pan(75, (32, 48)))
    (tmp_path / "list.txt").write_text("v.mp4 0 1.5 3\nv.mp4 0 1.7 3\nv.mp4\n")
    run("pack", tmp_path / "list.txt", tmp_path / "out")
    listed, packed = (
        Clips(open_dataset(tmp_path / name), num_frames=5, stride=2) for name in ("list.txt", "out")
    )
    indices = np.arange(3)
    frames = [clips.frames(0, 0, indices, indices) for clips in (listed, packed)]

    keys = [sample["__key__"] for sample in by_webdataset(tmp_path / "out")]
    assert keys == ["v@0_0-1_5", "v@0_0-1_7", "v"]
    np.testing.assert_array_equal(*frames)


def test_columns_of_videos_are_packed(run: Run, tmp_path: Path) -> None:
    """Into tars, under a name by which they are known for videos; Parquet shards hold images."""
    pytest.importorskip("av")
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    from tests.support.videos import pan, write_video

    video = write_video(tmp_path / "v.mp4", pan(5, (32, 48))).read_bytes()
    pq.write_table(pa.table({"movie": [video], "label": [3]}), tmp_path / "a.parquet")
    run("pack", tmp_path / "a.parquet", tmp_path / "out")
    [sample] = samples_of(tmp_path / "out")

    assert (bytes(sample.video or b""), sample.image, sample.label) == (video, None, 3)
    printed = refused(run, tmp_path / "a.parquet", tmp_path / "other", "--format", "parquet")
    assert "it is a video, which a Parquet shard does not hold" in printed


def test_folders_of_frames_are_refused(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """By name, and with what to do."""
    (tmp_path / "data/a/x").mkdir(parents=True)
    for number in (1, 2):
        (tmp_path / f"data/a/x/img_{number:05d}.jpg").write_bytes(jpeg(24, 36))

    printed = refused(run, tmp_path / "data", tmp_path / "out")

    assert "data holds folders of frames, which no shard holds: make a video of each" in printed
    assert not (tmp_path / "out").exists()


def test_names_that_clash_get_keys_of_their_own(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """Dots, equal stems, odd characters and reserved names make neither doubles nor losses."""
    names = [
        "__misc__/a.jpg",
        "b.c/a.jpg",
        "b.c/a.png",
        "b.c/a_1.jpg",
        "b.c/a.1.jpg",
        "b.c/ü \udcff.jpg",
        f"b.c/{'long' * 50}.jpg",
    ]
    for number, name in enumerate(names):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(20, 30, seed=number))

    run("pack", tmp_path / "source", tmp_path / "out")

    found, ours = by_webdataset(tmp_path / "out"), samples_of(tmp_path / "out")
    assert len({sample["__key__"] for sample in found}) == len(found) == len(ours) == len(names)
    assert [sample.label for sample in ours] == [0, 1, 1, 1, 1, 1, 1]
    assert sorted(bytes(sample.image or b"") for sample in ours) == sorted(
        jpeg(20, 30, seed=number) for number in range(len(names))
    )
    assert found[0]["__key__"] == "x__misc__/a"
    assert {"b.c/a", "b.c/a-2", "b.c/a_1", "b.c/a_1-2"} <= {sample["__key__"] for sample in found}


KILL = """
import os, signal, sys
from readers.prepare import packing, manifest, tar_shards
from bench.cli import main
module, name, most = sys.argv[1].split(":")
owner = sys.modules[module]
for part in name.split(".")[:-1]:
    owner = getattr(owner, part)
name = name.split(".")[-1]
function, count = getattr(owner, name), 0
def killing(*given, **named):
    global count
    count += 1
    if count == int(most):
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*given, **named)
setattr(owner, name, killing)
main(["pack", *sys.argv[2:]])
"""


@pytest.mark.parametrize(
    "place",
    [
        "readers.prepare.tar_shards:_pieces:7",  # within a shard
        "readers.prepare.packing:TarDataset:1",  # behind the first shard, of which nothing is noted
        "readers.prepare.manifest:Manifest.add:1",
        "readers.prepare.packing:TarDataset:2",  # between a shard and its index
        "readers.prepare.manifest:Manifest.add:2",  # between an index and the manifest
        "readers.prepare.manifest:Manifest.finish:1",  # at the end
    ],
)
def test_a_killed_run_goes_on(run: Run, source: Path, tmp_path: Path, place: str) -> None:
    """After kill -9 a second run gives, byte for byte, what one run would have given."""
    options = ["--shard-size", "30kB", "--shuffle", "3", "--workers", "2"]
    run("pack", source, tmp_path / "whole", *options)
    out = tmp_path / "out"
    killed = subprocess.run(
        [sys.executable, "-c", KILL, place, str(source), str(out), *options],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
    )
    there = {name: data for name, data in content(out).items() if name.endswith(".tar")}
    times = {path.name: path.stat().st_mtime_ns for path in shards_in(out)}
    kept = [shard["name"] for shard in manifest_of(out)["shards"]]
    code, printed, _ = run("pack", source, out, *options)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert there.items() <= content(tmp_path / "whole").items()
    assert code == 0
    assert "24 samples in" in printed
    assert content(out) == content(tmp_path / "whole")
    assert not list(out.glob(".gpuaug-*"))
    assert all((out / name).stat().st_mtime_ns == times[name] for name in kept)
    assert len({sample["__key__"] for sample in by_webdataset(out)}) == 24


def manifest_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    path = folder / "manifest.json"
    return json.loads(path.read_bytes()) if path.exists() else {"shards": []}


def test_an_index_that_cannot_be_written_is_tried_again(
    run: Run, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at the first index is one sentence, and the next run goes on."""

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(packing, "TarDataset", full)
        printed = refused(run, source, tmp_path / "out")

    assert "cannot be written (No space left on device)" in printed
    assert run("pack", source, tmp_path / "out")[0] == 0
    assert len(samples_of(tmp_path / "out")) == 24


def test_a_finished_run_writes_nothing(run: Run, source: Path, tmp_path: Path) -> None:
    """The same command again only sums up."""
    first = run("pack", source, tmp_path / "out", "--tile")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}

    assert run("pack", source, tmp_path / "out", "--tile") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize(
    ("change", "message"), [("unlink", "is missing"), ("cut", "has 100 bytes")]
)
def test_a_lost_shard_is_noticed(
    run: Run, source: Path, tmp_path: Path, change: str, message: str
) -> None:
    """A finished folder from which a shard is gone, or a part of one, is not called finished again."""
    run("pack", source, tmp_path / "out", "--shard-size", "30kB")
    shard = shards_in(tmp_path / "out")[1]
    shard.unlink() if change == "unlink" else os.truncate(shard, 100)

    assert message in refused(run, source, tmp_path / "out", "--shard-size", "30kB")


def test_a_source_is_read_forward_where_that_is_asked_for(
    run: Run, source: Path, tmp_path: Path
) -> None:
    """As for a server that gives no ranges; an ordinary tar shows it as well."""
    run("pack", source, tmp_path / "first")
    [shard] = shards_in(tmp_path / "first")
    code, printed, _ = run("pack", shard, tmp_path / "out", "--source-format", "stream")

    assert code == 0, printed
    assert by_webdataset(tmp_path / "out") == by_webdataset(tmp_path / "first")


def test_bad_samples_are_named_and_left_out(run: Run, source: Path, tmp_path: Path) -> None:
    """What cannot be read or is no image is missing in the shards and stands in the manifest."""
    (source / "cats" / "0.jpg").write_text("<html>404</html>")
    (source / "owls" / "7.jpg").write_bytes(b"")
    (source / "owls" / "8.jpg").symlink_to("nowhere")

    code, printed, _ = run("pack", source, tmp_path / "out", "--shard-size", "30kB")

    bad = manifest_of(tmp_path / "out")["bad_samples"]
    assert code == 0
    assert "22 samples in" in printed
    assert [(sample["key"], sample["stage"]) for sample in bad] == [
        ("cats/0.jpg", "header"),
        ("owls/7.jpg", "header"),
        ("owls/8.jpg", "read"),
    ]
    for sample in bad:
        assert f"bad sample {sample['key']} ({sample['stage']}): {sample['reason']}" in printed
    assert [sample.key.partition("/")[2] for sample in samples_of(tmp_path / "out")] == [
        sample.key.removesuffix(".jpg")
        for sample in FolderDataset(source).fetch(range(25))
        if sample.key not in ("cats/0.jpg", "owls/7.jpg", "owls/8.jpg")
    ]


def test_a_lost_end_of_a_shard_is_a_bad_sample(run: Run, source: Path, tmp_path: Path) -> None:
    """A source shard that is cut off gives what lies before the cut."""
    run("pack", source, tmp_path / "one")
    shard = tmp_path / "one" / "shard-000000.tar"
    os.truncate(shard, shard.stat().st_size // 2)

    _, printed, _ = run("pack", shard, tmp_path / "out")

    found = by_webdataset(tmp_path / "out")
    assert 8 <= len(found) <= 12
    assert "(read): shard-000000.tar is cut off" in printed


def test_memory_does_not_grow(run: Run, tmp_path: Path) -> None:
    """Ten times the samples take the same memory."""
    peaks = []
    for number in (30, 300):
        folder = tmp_path / str(number)
        folder.mkdir()
        noise = np.random.default_rng(0).bytes(100_000)
        stream = io.BytesIO()
        Image.new("RGB", (8, 8)).save(stream, "JPEG")
        for place in range(number):
            (folder / f"{place:04d}.jpg").write_bytes(stream.getvalue() + noise)
        command = (
            "pack",
            folder,
            tmp_path / f"out{number}",
            "--workers",
            1,
            "--shard-size",
            "10MB",
        )
        peaks.append(peak_bytes(lambda command=command: run(*command)))

    assert peaks[1] < peaks[0] + 2_000_000 < 10_000_000  # of 30 MB


def refused(run: Run, *arguments: object) -> str:
    code, _, printed = run("pack", *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    return printed.replace("\n", " ")


def test_other_settings_are_not_mixed(run: Run, source: Path, tmp_path: Path, jpeg: Jpeg) -> None:
    """A folder that was begun in another way is refused with the difference, and stays as it is."""
    out = tmp_path / "out"
    run("pack", source, out)
    before = content(out)

    assert "tile was False, is True" in refused(run, source, out, "--tile")
    assert "shuffle was None, is 1" in refused(run, source, out, "--shuffle", 1)
    assert "is 1000" in refused(run, source, out, "--shard-size", "1kB")
    (source / "cats" / "new.jpg").write_bytes(jpeg(20, 30))
    assert "samples was 24, is 25" in refused(run, source, out)
    assert content(out) == before


def test_foreign_folders_are_left_alone(run: Run, source: Path, tmp_path: Path) -> None:
    """A folder that holds something else, or a file that is no manifest, is refused."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").write_text("[]")

    assert "holds files and no manifest.json" in refused(run, source, tmp_path / "full")
    assert "is no manifest" in refused(run, source, tmp_path / "odd")
    assert "give a folder elsewhere" in refused(run, source, source / "shards")
    assert "cannot be made" in refused(run, source, tmp_path / "full" / "notes.txt" / "out")
    assert not (source / "shards").exists()


def test_arguments_are_checked(run: Run, source: Path, tmp_path: Path) -> None:
    """What cannot be meant is refused before anything is written."""
    out = tmp_path / "out"

    assert "got '12 apples'" in refused(run, source, out, "--shard-size", "12 apples")
    assert "got '0MB'" in refused(run, source, out, "--shard-size", "0MB")
    assert "shuffle must be 0 or more" in refused(run, source, out, "--shuffle", -1)
    assert "workers must be 1 or more" in refused(run, source, out, "--workers", 0)
    assert "does not exist" in refused(run, tmp_path / "missing", out)
    named = refused(run, source, tmp_path / "out.parquet")
    assert f"pack SRC {out} --format parquet" in " ".join(named.split())
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("256MB", 256_000_000), ("1GiB", 2**30), ("1.5 kb", 1500), ("7", 7), ("2T", 2 * 10**12)],
)
def test_sizes_have_units(text: str, expected: int) -> None:
    """Units of ten and of two, in any case."""
    assert size_from(text) == expected


def test_a_size_without_a_number_is_refused() -> None:
    """A unit alone is no size."""
    with pytest.raises(PrepareError, match="got 'MB'"):
        size_from("MB")


def test_nothing_to_pack_is_an_error(run: Run, tmp_path: Path) -> None:
    """A source without one sound image is refused, with the first reason."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "page.jpg").write_text("<html>404</html>")

    printed = refused(run, tmp_path / "source", tmp_path / "out")

    assert "no sample can be packed (the first of 1 is page.jpg" in printed


def test_two_commands_do_not_write_to_one_folder(run: Run, source: Path, tmp_path: Path) -> None:
    """A folder that a running command holds is refused."""
    with locked(tmp_path / "out"):
        assert "is being written by another command" in refused(run, source, tmp_path / "out")


FIELD_NAMES = (
    *(
        "cls",
        "CLS",
        "cls.bin",
        "label",
        "target",
        "key",
        "key.bin",
        "__key__",
        "image",
        "png",
        "jpg",
    ),
    *("JPG", "png.bin", "json", "mask.png", "mask/png", "seg.png", "A", "a", "a/b", "a.b", "a/jpg"),
    *("left.jpg", "\0", "", "\udcff", "b\n", "left/jpg", "\x85", "ü", "Ü"),
)
KEYS = ("x", "a.b", "../x", "/etc/x", "a\0b", "a\0c", ".", "..", "", "__x__", "a/../b", "\udcffz")


@cache
def picture(kind: str, seed: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), (seed, 0, 0)).save(stream, kind)
    return stream.getvalue()


class Memory:
    """A dataset of samples that are handed in, of a source that is not WebDataset's."""

    fingerprint, class_names = "0" * 32, ()

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def fetch(self, indices: object) -> list[Sample]:
        """See `readers.Dataset`."""
        return [self._samples[index] for index in np.asarray(indices)]


@st.composite
def samples(draw: st.DrawFn) -> list[Sample]:
    made = []
    for index in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(FIELD_NAMES), min_size=1, max_size=9, unique=True))
        label = draw(st.sampled_from([-1, 0, 7]))
        key = draw(st.sampled_from(KEYS))
        texts = [b"7", b"0", b"dog", b" 07", b"-1", os.fsencode(key), b"x", b"", picture("PNG", 99)]
        fields = {name: draw(st.sampled_from(texts)) for name in names}
        images = [name for name in names if name.rpartition(".")[2] in ("jpg", "png")]
        images = [name for name in images if name not in ("mask.png", "seg.png")]
        image_field = draw(st.sampled_from([None, *names]))
        image = image_field
        if image is None and images:
            image = images[0]
        if image is not None:
            fields[image] = picture(draw(st.sampled_from(["JPEG", "PNG"])), index)
        made.append(Sample(index, f"s.bin/{key}", fields, label, image_field=image_field))
    return made


@pytest.mark.filterwarnings("ignore:.*which may each be the")
@pytest.mark.parametrize("kind", ["tar", "parquet"])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(given_samples=samples())
def test_whatever_fields_are_called_they_are_read_back(
    kind: str, given_samples: list[Sample]
) -> None:
    """Image and label stay what they are, and every other field is there with its bytes, whatever its name."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        given_samples = [sample for sample in given_samples if sample.image is not None]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        out = Path(folder) / "out"
        patch.setattr(packing, "open_source", lambda *_, **__: Memory(given_samples))
        if not given_samples:
            return
        pack("memory", out, format=kind, num_workers=1)
        found = samples_of(out)

        assert len(found) == len(given_samples)
        assert len({sample.key for sample in found}) == len(found)
        for before, after in zip(given_samples, found, strict=True):
            assert after.label == before.label
            assert (after.image is None) == (before.image is None)
            assert bytes(after.image or b"") == bytes(before.image or b"")
            own = os.fsencode(after.key.partition("/")[2])
            needed = Counter(
                bytes(data)
                for name, data in before.fields.items()
                if not (name == "key" and re.fullmatch(re.escape(data) + rb"(-\d)?", own))
                and not (name in ("label", "cls") and data == b"%d" % before.label)
            )
            there = Counter(bytes(data) for data in after.fields.values())
            told = {bytes(after.fields.get(name, b"")) for name in ("key", "label", "cls")}
            assert needed <= there
            assert set(there - needed) <= told  # nothing that was not there
        if kind == "tar":
            assert len(by_webdataset(out)) == len(found)
            for shard in shards_in(out):
                with tarfile.open(shard) as archive:
                    for name in archive.getnames():
                        assert not name.startswith("/")
                        assert ".." not in name.split("/")
                        assert name.isprintable() or "\udcff" in name


def packed_fields(sample: Sample, *, in_tar: bool) -> dict[str, bytes]:
    [packed] = Packer(None, None, tile=None, headers=in_tar, copied=True)([sample])
    assert isinstance(packed, Packed)
    return {name: bytes(data) for name, data in packed.fields}


@pytest.mark.parametrize("in_tar", [True, False])
def test_fields_that_clash_have_names_of_their_own(in_tar: bool) -> None:
    """The image has the first right to its extension, then come names that stay as they are."""
    image, mask = picture("PNG", 0), picture("PNG", 1)
    fields = {"png": mask, "image": image, "A": b"1", "a": b"2", "s/x": b"3", "s.x": b"4"}
    sample = Sample(0, "t/k", {**fields, "cls": b"dog", "target": b"7"}, 7, image_field="image")

    found = packed_fields(sample, in_tar=in_tar)

    expected = {"png": image, "png.bin": mask, "a": b"2", "a.bin": b"1", "s.x": b"4"}
    expected |= {"s.x.bin": b"3", "cls.bin": b"dog", "target": b"7"}
    assert found == expected | ({"cls": b"7"} if in_tar else {})
    assert next(iter(found)) == "png"


def test_labels_are_those_of_the_source(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """A text called cls does not hide the class number, in either kind of shard."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"image": [jpeg(9, 9)] * 3, "label": [0, 1, 2], "cls": ["cat", "dog", "7"]}
    pq.write_table(pa.table({**columns, "target": [0, 9, 9]}), tmp_path / "s.parquet")
    for kind in ("tar", "parquet"):
        run("pack", tmp_path / "s.parquet", tmp_path / kind, "--format", kind)
        found = samples_of(tmp_path / kind)

        assert [sample.label for sample in found] == [0, 1, 2]
        assert [bytes(sample.fields["cls.bin"]) for sample in found] == [b"cat", b"dog", b"7"]
        assert [bytes(sample.fields["target"]) for sample in found] == [b"0", b"9", b"9"]


def test_parquet_is_packed_anew(run: Run, source: Path, tmp_path: Path) -> None:
    """From Parquet to Parquet and to tar, keys, labels and columns stay as they are."""
    parquet = pytest.importorskip("pyarrow.parquet")
    run("pack", source, tmp_path / "a", "--format", "parquet")
    run("pack", tmp_path / "a", tmp_path / "b", "--format", "parquet")
    run("pack", tmp_path / "a", tmp_path / "c")
    one, other = (
        parquet.read_table(tmp_path / name / "shard-000000.parquet").to_pylist() for name in "ab"
    )

    assert one == other
    assert [sample["__key__"] for sample in by_webdataset(tmp_path / "c")] == [
        row["key"] for row in one
    ]


def test_keys_are_unique_within_a_parquet_shard(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """Equal stems and names that are not UTF-8 are packed, each with a key of its own."""
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "source" / "\udcfe").mkdir(parents=True)
    for name in ("\udcfe/x.jpg", "\udcfe/x.png", "\udcfe/\udcff.jpg"):
        (tmp_path / "source" / name).write_bytes(jpeg(20, 30))
    code, _, _ = run("pack", tmp_path / "source", tmp_path / "out", "--format", "parquet")
    rows = parquet.read_table(tmp_path / "out" / "shard-000000.parquet").to_pylist()

    assert code == 0
    assert [row["key"] for row in rows] == ["\\udcfe/x", "\\udcfe/x-2", "\\udcfe/\\udcff"]
    assert len(samples_of(tmp_path / "out")) == 3


@pytest.mark.usefixtures("every_payload_is_long")
@pytest.mark.parametrize("tool", ["pack", "inspect", "inspect --verify"])
def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, jpeg: Jpeg, tool: str) -> None:
    """Its sample is bad, and whoever looks into it lives on."""
    path = tmp_path / "a.tar"
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 60))
    with tarfile.open(path, "w") as archive:
        archive.add(tmp_path / "photo.jpg", "photo.jpg")
    [sample] = open_dataset(path).fetch([0])
    assert isinstance(sample, Sample)
    os.truncate(path, 0)

    if tool == "pack":
        packer = Packer(None, None, tile=tile_jpeg, headers=True, copied=False)
        [refused] = packer([sample])
        bad = refused.bad
    else:
        [bad] = inspect(Memory([sample]), verify=CHECKS if tool.endswith("verify") else None).bad

    assert (bad.index, bad.stage) == (0, "read")
    assert "it has shrunk from" in bad.reason


def test_what_parquet_cannot_hold_is_left_out_by_name(
    run: Run, source: Path, tmp_path: Path
) -> None:
    """A sample without an image, which would not be read back, is a bad sample."""
    pytest.importorskip("pyarrow")
    run("pack", source, tmp_path / "tar")
    with tarfile.open(tmp_path / "more.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("a.json"))
        for name in ("0.jpg", "0.cls"):
            info = tarfile.TarInfo(f"z{name}")
            data = (source / "cats" / "0.jpg").read_bytes() if name == "0.jpg" else b"3"
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

    _, printed, _ = run("pack", tmp_path / "more.tar", tmp_path / "out", "--format", "parquet")

    assert "it has no image, which a Parquet shard needs" in printed
    assert [sample.label for sample in samples_of(tmp_path / "out")] == [3]


def test_labels_that_cannot_be_read_back_are_refused() -> None:
    """A class number of 19 digits is a bad sample and no other number."""
    sample = Sample(4, "t/k", {"jpg": picture("JPEG", 0)}, 10**18)

    [refusal] = Packer(None, None, tile=None, headers=True, copied=False)([sample])

    assert refusal.bad == BadSample(  # type: ignore[union-attr]
        4, "t/k", "read", f"its label {10**18} has more than 18 digits"
    )


def test_another_stream_of_the_same_name_is_refused(run: Run, source: Path, tmp_path: Path) -> None:
    """A folder that was begun with one stream takes no other, not even of the same name and size."""
    run("pack", source, tmp_path / "tar")
    [shard] = shards_in(tmp_path / "tar")
    for name in "ab":
        (tmp_path / name).mkdir()
        packed = gzip.compress(shard.read_bytes(), mtime=ord(name))
        (tmp_path / name / "x.tar.gz").write_bytes(packed)
    out = tmp_path / "out"
    assert run("pack", tmp_path / "a" / "x.tar.gz", out)[0] == 0

    assert "source was" in refused(run, tmp_path / "b" / "x.tar.gz", out)
    (tmp_path / "a" / "x.tar.gz").write_bytes(gzip.compress(shard.read_bytes(), 1))
    assert "source was" in refused(run, tmp_path / "a" / "x.tar.gz", out)


def _die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_one_sentence() -> None:
    """A worker that the kernel ends for want of memory says what can be done."""
    with Processes(1, _die) as crew, pytest.raises(PrepareError, match="fewer --workers"):
        list(crew.map(_die, range(9)))


BUSY = """
import sys, time
from pathlib import Path
from readers.prepare.workers import Processes
from tests.readers.prepare.test_pack import linger
if __name__ == "__main__":
    with Processes(2, linger) as crew:
        list(crew.map(linger, [sys.argv[1]] * 9))
"""


def linger(folder: str) -> None:
    """A task without end, in a worker that says who it is."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def test_workers_end_with_a_killed_command(tmp_path: Path) -> None:
    """After kill -9 of the command no worker goes on."""
    (tmp_path / "workers").mkdir()
    (tmp_path / "busy.py").write_text(BUSY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "busy.py"), str(tmp_path / "workers")]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        until(lambda: len(list((tmp_path / "workers").iterdir())) == 2, seconds=60)
        process.kill()
        workers = [int(path.name) for path in (tmp_path / "workers").iterdir()]
        until(lambda: not any(map(runs, workers)), seconds=20)
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool], *, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def runs(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
