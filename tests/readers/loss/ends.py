"""What follows a cut, and members of containers: nothing is lost without a refusal, a warning or a bad sample."""

import json
import os
import tarfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from readers import BadSample, open_dataset
from readers.sample import ReadersError
from tests.support.jpegs import encode, picture
from tests.support.loss import Cell, NotApplicable
from tests.support.one_other import writer_of
from tests.support.opening import assert_refused
from tests.support.tars import tar_of, with_header
from tests.support.writers import Written

NUM_SAMPLES = 6
SAMPLES = [
    Written(f"n{number:02d}", encode(picture(16, 16, number), "4:2:0"), number % 3)
    for number in range(NUM_SAMPLES)
]
Told = tuple[list[int], list[str], list[str]]


def look(source: Any, name: str, **options: Any) -> Told:
    """The labels of good samples, the reasons of bad ones and the warnings; a refusal counts as one of these."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            dataset = open_dataset(source, format=name, **options)  # type: ignore[call-overload]
            entries = dataset.fetch(range(len(dataset))) if name != "stream" else list(dataset)
        except ReadersError as error:
            return [], [], [str(error)]
    bad = [entry.reason for entry in entries if isinstance(entry, BadSample)]
    labels = [entry.label for entry in entries if not isinstance(entry, BadSample)]
    return labels, bad, [str(one.message) for one in said]


def written(name: str, folder: Path) -> Any:
    return writer_of(name).write(folder, SAMPLES)


def cut_anywhere(name: str, folder: Path) -> None:
    """Cut the longest file: what is read then is all there was, or something says that it is not."""
    source = written(name, folder)
    [before, _, said] = look(source, name)
    files = [path for path in folder.rglob("*") if path.is_file() and ".gpuaug" not in path.name]
    longest = max(files, key=lambda path: path.stat().st_size)
    data = longest.read_bytes()
    for eighths in (3, 5, 7):
        longest.write_bytes(data[: len(data) * eighths // 8])
        os.utime(longest, ns=(eighths, eighths))  # another time than the index is of
        labels, bad, told = look(source, name)
        assert labels == before or bad or set(told) - set(said), (longest.name, eighths, labels)


def cut_in_the_last_line(name: str, folder: Path) -> None:
    """A last line without its line feed and without its label is no sample without a label."""
    source = written(name, folder)
    text = source.read_text().rstrip("\n")
    source.write_text(text[:-2] if name == "list" or name == "clip-list" else text[:-9])
    labels, bad, told = look(source, name)

    assert -1 not in labels
    assert bad or told


def numbered(first: int, stop: int) -> list[tuple[str, bytes]]:
    return [
        (f"{number}.{field}", content)
        for number in range(first, stop)
        for field, content in (("jpg", SAMPLES[0].image), ("cls", b"%d" % number))
    ]


def ends_of_tars(name: str, folder: Path) -> None:
    """Cuts between members and within padding, joined archives, dots in names, links."""

    def read(data: bytes, **options: Any) -> Told:
        path = folder / f"{len(os.listdir(folder))}.tar"  # noqa: PTH208
        path.write_bytes(data)
        first = look([path], name, **options)
        assert name == "stream" or look([path], name, **options) == first  # of the stored index
        return first

    whole = tar_of(numbered(0, 3))
    at = [
        number
        for number in range(0, len(whole), 512)
        if whole[number + 257 : number + 262] == b"ustar"
    ]
    labels, bad, said = read(whole[: at[4]])  # in front of the third sample
    assert (labels, bad) == ([0, 1], [])
    assert "ends at byte" in said[0]
    labels, bad, said = read(whole[: at[3]])  # in front of the label of the second
    assert labels == [0]
    assert "no cls, as all before it have" in bad[0]
    labels, bad, _ = read(whole[: at[4] - 100])  # in the padding behind the second
    assert -1 not in labels
    assert "cut off" in bad[0]
    assert read(whole + tar_of(numbered(3, 5))) == ([0, 1, 2, 3, 4], [], [])
    labels, bad, said = read(tar_of(numbered(0, 1)) * 2)  # cat a.tar a.tar
    assert (labels, bad) == ([0, 0], [])
    assert name == "stream" or "1 sample with the key of an earlier one" in said[0]
    end = at[4] + at[2]  # behind the third sample, which is as long as the first
    labels, bad, said = read(whole[: end + 512])
    assert (labels, bad) == ([0, 1, 2], [])
    assert "without the two zero blocks" in said[0]
    assert read(whole[: end + 1024]) == ([0, 1, 2], [], [])

    for kind in (
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.GNUTYPE_LONGNAME,
    ):  # that claim 1 MB and 20 GB
        for size in (1 << 20, 20 << 30):
            info = tarfile.TarInfo("long")
            info.type, info.size = kind, size
            claim = info.tobuf(tarfile.GNU_FORMAT)
            labels, bad, _ = read(whole[: at[2]] + claim + whole[at[2] :])
            assert labels == ([0] if name == "tar" else [])
            assert f"byte {at[2]}" in bad[0]
        labels, bad, said = read(claim + whole)
        assert "the header at byte 0 is damaged: it claims 21474836480 bytes" in [*bad, *said][0]

    dotted = tar_of([("a.v1.jpg", SAMPLES[0].image), ("a.v1.cls", b"2")])
    labels, bad, said = read(dotted)
    assert (labels, bad) == ([-1], [])
    assert "keys='last-dot'" in said[0]
    assert read(dotted, keys="last-dot") == ([2], [], [])
    assert_refused(
        "give one of first-dot, last-dot", str(folder / "0.tar"), format=name, keys="dot"
    )

    linked = tar_of([*numbered(0, 1), ("1.jpg", b""), ("1.cls", b"1"), ("2.jpg", b"")])
    for link, target in ((b"1.jpg", b"0.jpg"), (b"2.jpg", b"none.jpg")):
        hard_link = {156: tarfile.LNKTYPE, 157: target}
        linked = with_header(linked, linked.index(link), hard_link)
    labels, bad, _ = read(linked)
    assert labels == ([0, 1] if name == "tar" else [0])
    assert "link to none.jpg" in bad[-1]


def declared_counts(folder: Path) -> None:
    """A shard that is not there, one that is shorter than declared, a hole in the numbers of names; the rest is silent."""
    write = partial(written, "tfrecord", folder)
    write()
    for number in range(2):
        shard = folder / f"part-{number}.tfrecord"
        shard.rename(folder / f"a-train.tfrecord-{number:05d}-of-00002")
    info = {"splits": [{"name": "train", "shardLengths": ["3", "3"]}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    assert look(folder, "tfrecord") == ([0, 1, 2, 0, 1, 2], [], [])
    second = folder / "a-train.tfrecord-00001-of-00002"
    data = second.read_bytes()
    record = 16 + int.from_bytes(data[:8], "little")
    second.write_bytes(data[:record])
    labels, bad, said = look(folder, "tfrecord")
    assert (labels, bad) == ([0, 1, 2, 0], [])
    assert "declares 3 samples in a-train.tfrecord-00001-of-00002, and 1 are there" in said[0]
    second.unlink()
    labels, bad, said = look(folder, "tfrecord")
    assert (labels, bad) == ([0, 1, 2], [])
    assert "(a-train.tfrecord-00001-of-00002)" in said[0]


def cut_between_batches(folder: Path) -> None:
    """A stream of record batches is sound up to any of them: the mark behind the last one is missed."""
    pyarrow = pytest.importorskip("pyarrow")
    cut_anywhere("arrow", folder)
    table = pyarrow.table({"image": [SAMPLES[0].image] * 4, "label": [0, 1, 2, 3]})
    sink = pyarrow.BufferOutputStream()
    sizes = []
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        for batch in table.to_batches(max_chunksize=2):
            stream.write_batch(batch)
            sizes.append(sink.tell())
    data = sink.getvalue().to_pybytes()
    for length, labels in ((len(data), [0, 1, 2, 3]), (sizes[0], [0, 1])):
        (folder / f"{length}.arrow").write_bytes(data[:length])
        found, bad, said = look(folder / f"{length}.arrow", "arrow")
        assert (found, bad) == (labels, [])
        assert ["end without the mark" in one for one in said] == [True] * (len(labels) == 2)


OWN_FILES = NotApplicable("Each sample is a file of its own, which is cut off alone.")
CUT: dict[str, Cell] = {
    name: partial(cut_anywhere, name)
    for name in (
        *("parquet", "lmdb", "hdf5", "arrayrecord", "mds", "npy", "coco", "openimages"),
        *("lerobot", "lance", "delta", "iceberg", "energon"),
    )
}
LINES: dict[str, Cell] = {
    name: partial(cut_in_the_last_line, name) for name in ("list", "csv", "clip-list", "manifest")
}
CELLS: dict[str, Cell] = {
    **CUT,
    **LINES,
    "tar": partial(ends_of_tars, "tar"),
    "stream": partial(ends_of_tars, "stream"),
    "tfrecord": declared_counts,
    "arrow": cut_between_batches,
    **dict.fromkeys(
        (
            *(
                "folder",
                "video-folder",
                "frame-folder",
                "voc",
                "yolo",
                "labelme",
                "dota",
                "mask-folder",
            ),
            "imagenet",
        ),
        OWN_FILES,
    ),
}
