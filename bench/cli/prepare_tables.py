"""Print the output of `gpu-aug index` and `gpu-aug pack`: indexes, seek points, videos, and packed shards."""

from collections import Counter
from pathlib import Path

import numpy as np
from rich.filesize import decimal

from bench.output.errors import BenchError
from bench.output.text import (
    listed,
    name_some,
    print_facts,
    print_first,
    print_left_out,
    print_line,
    printable,
)
from readers import Dataset
from readers.plural import counted
from readers.prepare import Indexing, Packing
from readers.prepare.seek_points import SeekPointCounts
from readers.prepare.shards.merging import num_missing
from readers.prepare.shards.plan import MANIFEST
from readers.prepare.source import title_of
from readers.storage.blob import Blob, is_url
from readers.storage.index import FoundIndex
from readers.video import VideoError, VideoIndex
from readers.video.info import peculiarity_lines

_MOST_VIDEOS = 3  # bad videos that are listed for each reason
_MOST_SAMPLES = 5  # bad samples that are listed


def print_indexing(source: str, found: Indexing, task: str | None) -> None:
    """Print all results of indexing; for a task of an array job, the results of that task."""
    if found.shards:
        _print_shards(found)
    if task is not None:
        total = len(found.lacking) + len(found.shards)
        text = f"task {task}: {len(found.lacking):,} of {total:,} indexes are not there yet"
        print_line(f"{text}; --merge tells when all are")
    elif found.videos is not None and found.files is not None:
        _print_videos(found.files, found.videos)
    elif not found.shards and found.seek_points is None:
        print_line(f"{printable(source)} needs no index (format: {title_of(found.dataset)})")
    if found.seek_points is not None:
        _print_seek_points(found.seek_points)
    if task is None:
        print_left_out(source, found.dataset)


def _print_shards(indexing: Indexing) -> None:
    """Print how many indexes were built, how fast, and where they are."""
    found, seconds = indexing.shards, indexing.seconds
    built = [(blob, index) for blob, index in found if index.built]
    work = "none, all were there"
    if built:
        num_samples = sum(len(index.head) for _, index in built)
        num_bytes = sum(blob.size_bytes for blob, _ in built)
        work = (
            f"{counted(len(built), 'index')} of {counted(num_samples, 'sample')} "
            f"({decimal(num_bytes)} of shards) in {seconds:.1f} s, {num_samples / seconds:,.0f} samples/s"
        )
    print_line(
        f"shards: {len(found):,}, samples: {sum(len(index.head) for _, index in found):,}\n"
        f"built now: {work}\n"
        f"indexes: {decimal(sum(index.head.file_bytes for _, index in found))}, {_where(found)}",
    )


def _print_seek_points(found: SeekPointCounts) -> None:
    """Print how many images have seek points, where these are stored, and why others have none."""
    text = f"seek points: of {found.found:,} of {counted(found.looked_at, 'image')}, {decimal(found.num_bytes)}"
    if found.paths:
        text += f", in {name_some(found.paths[:1], len(found.paths) - 1)}"
    print_line(text)
    for reason, number in found.none.most_common():
        names = name_some(found.named.get(reason, []), 0)
        print_line(f"    {number:,} have none: {reason}" + (names and f", such as {names}"))
    if any(reason.startswith("damaged") for reason in found.none):
        print_line(
            "    Damaged ones are decoded by OpenCV, which may accept them with wrong pixels: look at them."
        )
    if found.lacking:
        print_line(
            f"    {found.lacking:,} are left to other tasks; --merge tells when all are there",
        )


def _where(found: list[tuple[Blob, FoundIndex]]) -> str:
    apart = [
        index.path.parent
        for blob, index in found
        if is_url(blob.location) or index.path.parent != Path(blob.location).parent
    ]
    if not apart:
        return "beside the shards"
    others = f", {len(found) - len(apart):,} beside the shards" if len(apart) < len(found) else ""
    return f"{len(apart):,} in {printable(str(apart[0]))}{others}"


def _print_videos(dataset: Dataset, index: VideoIndex) -> None:
    """Print properties of the videos, and the bad ones."""
    print_facts(_facts(index))
    _, samples = np.unique(index.videos, return_index=True)
    bad: dict[str, list[int]] = {}
    for sample in samples[index.num_frames[samples] == 0].tolist():
        if isinstance(found := index[sample], VideoError):
            bad.setdefault(str(found), []).append(sample)
    for reason, numbers in sorted(bad.items(), key=lambda item: -len(item[1])):
        keys = [entry.key for entry in dataset.fetch(numbers[:_MOST_VIDEOS])]
        some = name_some(keys, len(numbers) - len(keys))
        print_line(f"bad: {some}: {printable(reason)}", "yellow")
    print_line(f"index: {printable(str(index.path))}")


def _facts(index: VideoIndex) -> list[tuple[str, str]]:
    rows, store = index.store.rows, index.store
    videos = np.unique(index.videos)
    good = videos[rows["num_frames"][videos] > 0]
    found, names = rows[good], [store.names(number) for number in good.tolist()]
    sizes = zip(found["width"].tolist(), found["height"].tolist(), strict=True)
    lasting = found[found["duration_seconds"] > 0]
    rate = "unknown"
    if len(lasting):
        fps = lasting["num_frames"] / lasting["duration_seconds"]
        rate = f"{np.median(fps):.4g} at the median, {fps.min():.4g} to {fps.max():.4g}"
    clips = f", {len(index):,} samples" if len(index) > len(videos) else ""
    return [
        ("videos", f"{len(good):,} of {len(videos):,} can be read{clips}"),
        ("hours", f"{found['duration_seconds'].sum() / 3600:,.2f}"),
        ("frames", f"{int(found['num_frames'].sum()):,}"),
        ("codecs", listed(Counter(name["codec"] for name in names))),
        ("width x height", listed(Counter(f"{width}x{height}" for width, height in sizes))),
        ("frames per second", rate),
        ("with sound", f"{int(np.count_nonzero(found['has_audio'])):,}"),
        ("break off", f"{sum(bool(name['damage']) for name in names):,}"),
        *peculiarity_lines(index.peculiar),
    ]


def print_packing(source: str, destination: str, packed: Packing, task: str | None) -> None:
    """Print all results of packing; for a task of an array job, the results of that task.

    Raises:
        BenchError: The source ends early.
    """
    size = f"{counted(packed.num_samples, 'sample')} in {counted(packed.num_shards, 'shard')}"
    if task is not None:
        missing = num_missing(destination)
        then = f"{missing} remain for other tasks" if missing else "none remain: give --merge"
        print_line(f"task {task} is done: {size}; {then}")
        return
    print_line(size)
    bad = [
        f"bad sample {printable(sample['key'])} ({sample['stage']}): {sample['reason']}"
        for sample in packed.bad_samples
    ]
    print_first(bad, _MOST_SAMPLES, f", all named in {MANIFEST}")
    before, after = packed.totals.source_bytes, packed.totals.bytes
    growth = (after - before) / max(before, 1)
    print_line(f"size: {decimal(before)} before, {decimal(after)} after ({growth:+.2%})")
    if breaks := packed.breaks:  # all samples after this position are missing
        raise BenchError(
            f"{source} breaks off in {len(breaks)} places, the first at "
            f"{printable(breaks[0]['key'])}: what could be read is packed; mend the source and pack it "
            "into a new folder to have the rest"
        )
