"""Output of `gpu-aug index`: the indexes built for shards, and the properties of videos."""

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from bench.output.text import print_plain, printable
from readers import Dataset
from readers.plural import counted
from readers.prepare import Indexing
from readers.prepare.checkpointing import Checkpointing
from readers.storage.blob import Blob, is_url
from readers.storage.index import FoundIndex
from readers.video import VideoError, VideoIndex
from readers.video.info import peculiarity_lines

_MOST_SHOWN = 5
_MOST_BAD = 3  # named, for each reason


def print_shards(indexing: Indexing, console: Console) -> None:
    """Print what was built, how fast, and where the indexes lie."""
    found, seconds = indexing.shards, indexing.seconds
    built = [(blob, index) for blob, index in found if index.built]
    num_samples = sum(len(index.head) for _, index in built)
    num_bytes = sum(blob.size_bytes for blob, _ in built)
    work = (
        f"{counted(len(built), 'index')} of {counted(num_samples, 'sample')} "
        f"({decimal(num_bytes)} of shards) in {seconds:.1f} s, {num_samples / seconds:,.0f} samples/s"
    )
    lines = [
        f"shards: {len(found):,}, samples: {sum(len(index.head) for _, index in found):,}",
        f"built now: {work if built else 'none, all were there'}",
        f"indexes: {decimal(sum(index.head.file_bytes for _, index in found))}, {_where(found)}",
    ]
    for line in lines:
        print_plain(console, line)


def print_checkpoints(found: Checkpointing, console: Console) -> None:
    """Print how many images have checkpoints, where these lie, and why the others have none."""
    text = f"checkpoints: of {found.found:,} of {counted(found.looked_at, 'image')}, {decimal(found.num_bytes)}"
    if found.paths:
        text += f", in {printable(found.paths[0])}"
        more = len(found.paths) - 1
        text += f" and {counted(more, 'other')}" if more else ""
    print_plain(console, text)
    for reason, number in found.none.most_common():
        names = ", ".join(map(printable, found.named.get(reason, [])))
        print_plain(
            console, f"    {number:,} have none: {reason}" + (names and f", such as {names}")
        )
    if any(reason.startswith("damaged") for reason in found.none):
        text = "Damaged ones are decoded by OpenCV, which may accept them with wrong pixels: look at them."
        print_plain(console, f"    {text}")
    if found.lacking:
        print_plain(
            console,
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


def print_videos(dataset: Dataset, index: VideoIndex, console: Console) -> None:
    """Print what the videos are, and which are bad."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, text in _lines(index):
        table.add_row(name, text)
    console.print(table, highlight=False)
    _print_bad(dataset, index, console)
    print_plain(console, f"index: {printable(str(index.path))}")


def _lines(index: VideoIndex) -> list[tuple[str, str]]:
    rows, store = index.store.rows, index.store
    videos = np.unique(index.videos)
    good = videos[rows["num_frames"][videos] > 0]
    found = rows[good]
    codecs = Counter(store.names(number)["codec"] for number in good.tolist())
    sizes = Counter(zip(found["height"].tolist(), found["width"].tolist(), strict=True))
    damaged = sum(bool(store.names(number)["damage"]) for number in good.tolist())
    clips = f", {len(index):,} samples" if len(index) > len(videos) else ""
    return [
        ("videos", f"{len(good):,} of {len(videos):,} can be read{clips}"),
        ("hours", f"{found['duration_seconds'].sum() / 3600:,.2f}"),
        ("frames", f"{int(found['num_frames'].sum()):,}"),
        ("codecs", _most(codecs)),
        ("width x height", _most(Counter({f"{w}x{h}": count for (h, w), count in sizes.items()}))),
        ("frames per second", _spread(found["num_frames"], found["duration_seconds"])),
        ("with sound", f"{int(np.count_nonzero(found['has_audio'])):,}"),
        ("break off", f"{damaged:,}"),
        *peculiarity_lines(index.peculiar),
    ]


def _most(counts: Counter[str]) -> str:
    shown = [f"{name} ({count:,})" for name, count in counts.most_common(_MOST_SHOWN)]
    more = len(counts) - _MOST_SHOWN
    return ", ".join(shown) + (f", {counted(more, 'other')}" if more > 0 else "") or "none"


def _spread(num_frames: NDArray[np.uint32], seconds: NDArray[np.float64]) -> str:
    lasting = seconds > 0
    if not lasting.any():
        return "unknown"
    fps = num_frames[lasting] / seconds[lasting]
    return f"{np.median(fps):.4g} at the median, {fps.min():.4g} to {fps.max():.4g}"


def _print_bad(dataset: Dataset, index: VideoIndex, console: Console) -> None:
    _, samples = np.unique(index.videos, return_index=True)
    bad: dict[str, list[int]] = {}
    for sample in samples[index.num_frames[samples] == 0].tolist():
        found = index[sample]
        if isinstance(found, VideoError):
            bad.setdefault(str(found), []).append(sample)
    for reason, numbers in sorted(bad.items(), key=lambda item: -len(item[1])):
        keys = ", ".join(printable(entry.key) for entry in dataset.fetch(numbers[:_MOST_BAD]))
        others = len(numbers) - _MOST_BAD
        more = f" and {counted(others, 'other')}" if others > 0 else ""
        text = f"bad: {keys}{more}: {printable(reason)}"
        print_plain(console, text, "yellow")
