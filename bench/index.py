"""The command ``gpu-aug index``: builds the indexes that a source needs, before anybody waits for them."""

import os
import time
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress, TaskID

from bench.index_videos import open_index, show_videos
from bench.progress import bytes_bar
from bench.source import open_at_random, show_others, title_of
from bench.tiling import printable
from bench.video.kind import holds_videos
from readers.plural import counted
from readers.storage.blob import Blob, is_url
from readers.storage.index import FoundIndex
from readers.storage.index.builder import build_indexes


def index_and_show(data: str, *, format: str | None = None, num_workers: int | None = None) -> None:
    """Index every shard of a source and say how much that was, how fast, and where the indexes lie.

    What is there and fits is left as it is, so a second run goes on with the first. Videos are looked through
    as well, and what they are is told.

    Raises:
        SourceError: The source cannot be opened.
        IndexFileError: An index can be kept nowhere.
    """
    console = Console()
    start_seconds = time.perf_counter()
    with bytes_bar(console) as bar:
        watch = _Watch(bar)
        with build_indexes(
            num_workers or os.cpu_count() or 1, on_found=watch.on_found, on_index=watch.on_index
        ) as builder:
            dataset = open_at_random(data, format)
    seconds = time.perf_counter() - start_seconds
    has_videos = holds_videos(dataset)
    if builder.found:
        _show(builder.found, seconds, console)
    elif not has_videos:
        console.print(
            f"{printable(data)} needs no index (format: {title_of(dataset)})",
            highlight=False,
            soft_wrap=True,
        )
    if has_videos:
        show_videos(dataset, open_index(dataset, console), console)
    show_others(data, dataset, console)


class _Watch:
    """Moves the bar on."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def on_found(self, _: int, size_bytes: int) -> None:
        self._task = self._bar.add_task("", total=size_bytes)

    def on_index(self, blob: Blob, _: FoundIndex) -> None:
        if self._task is not None:
            self._bar.advance(self._task, blob.size_bytes)


def _show(found: list[tuple[Blob, FoundIndex]], seconds: float, console: Console) -> None:
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
        console.print(line, highlight=False, soft_wrap=True)
    repeated = sorted(
        (blob.name, index.head.num_repeated_keys)
        for blob, index in found
        if index.head.num_repeated_keys
    )
    if repeated:
        name, number = repeated[0]
        total = sum(number for _, number in repeated)
        console.print(
            f"{counted(total, 'sample')} {'has' if total == 1 else 'have'} the key of an earlier one of the same shard "
            f"({number:,} in {printable(name)}): where files of one sample do not follow one another, each run of "
            "them is a sample of its own",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )


def _where(found: list[tuple[Blob, FoundIndex]]) -> str:
    apart = [
        index.place.parent
        for blob, index in found
        if is_url(blob.location) or index.place.parent != Path(blob.location).parent
    ]
    if not apart:
        return "beside the shards"
    others = f", {len(found) - len(apart):,} beside the shards" if len(apart) < len(found) else ""
    return f"{len(apart):,} in {printable(str(apart[0]))}{others}"
