"""What a dataset of videos is made of, as `gpu-aug index` tells it."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bench.progress import samples_bar
from bench.tiling import printable
from readers import Dataset
from readers.plural import counted
from readers.video import VideoError, VideoIndex
from readers.video.oddities import told

_MOST_SHOWN = 5
_MOST_BAD = 3  # named, for each reason


def open_index(dataset: Dataset, console: Console) -> VideoIndex:
    """Open the index of a dataset of videos, with a bar while it is built."""
    with samples_bar(console) as bar:
        task = bar.add_task("", total=None)
        return VideoIndex.open(
            dataset,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def show_videos(dataset: Dataset, index: VideoIndex, console: Console) -> None:
    """Print what the videos are, and which are bad."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, text in _lines(index):
        table.add_row(name, text)
    console.print(table, highlight=False)
    _show_bad(dataset, index, console)
    console.print(f"index: {printable(str(index.place))}", highlight=False, soft_wrap=True)


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
        *told(index.peculiar),
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


def _show_bad(dataset: Dataset, index: VideoIndex, console: Console) -> None:
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
        console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)
