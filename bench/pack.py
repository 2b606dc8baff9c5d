"""Any dataset as WebDataset tar shards, with their indexes beside them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from bench.crew import Crew, checked_workers
from bench.errors import BenchError
from bench.manifest import NAME, Manifest
from bench.packing import Packed, Refused, fetch_packed
from bench.progress import samples_bar
from bench.shard_writer import Stream, write_shard
from bench.tiling import Tally, printable, show_sizes
from bench.whole import held
from readers import Dataset, Order, TarDataset, open_dataset

_CHUNK = 2  # samples per task: few, since whatever is under way is held in memory
_NUM_BAD_SHOWN = 5
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class PackSettings:
    """What decides about the shards, in the words of the command line.

    Attributes:
        tile: Put restart markers into every JPEG.
        shard_size: The largest size of a shard, such as 256MB or 1GiB.
        shuffle: Seed of the order; the order of the source when None.
    """

    tile: bool = False
    shard_size: str = "256MB"
    shuffle: int | None = None

    def __post_init__(self) -> None:
        if self.shuffle is not None and self.shuffle < 0:
            raise BenchError(f"shuffle must be 0 or more, got {self.shuffle}: it is a seed")
        size_from(self.shard_size)


def size_from(text: str) -> int:
    """Bytes in a size such as 256MB (10^6 each) or 1GiB (2^30).

    Raises:
        BenchError: It is no such size.
    """
    found = _SIZE.fullmatch(text.strip())
    size = 0
    if found:
        exponent = " kmgt".index(found[2].lower() or " ")
        size = round(float(found[1]) * (1024 if found[3] else 1000) ** exponent)
    if size < 1:
        raise BenchError(f"a size must be a number with kB, MB, GB or MiB behind it, got {text!r}")
    return size


def pack_and_show(
    source: str, destination: Path, settings: PackSettings, *, num_workers: int | None
) -> None:
    """Write the shards that are not there yet, show how far it is, and sum up.

    Raises:
        BenchError: The destination cannot be written, holds something else, or lies within the source;
            or not one sample can be packed.
        readers.ReadersError: There is nothing to read.
    """
    workers = checked_workers(num_workers)
    _check_apart(source, destination)
    dataset, console = open_dataset(source), Console()
    with held(destination):
        manifest = Manifest(destination, _described(dataset, settings), dataset.class_names)
        with Crew(workers) as crew, samples_bar(console) as bar:
            task = bar.add_task("", total=len(dataset))
            try:
                _write_shards(
                    dataset,
                    settings,
                    manifest,
                    crew,
                    on_position=lambda position: bar.update(task, completed=position),
                )
            except OSError as error:
                raise BenchError(
                    f"{destination} cannot be written ({error.strerror}): the shards that are there "
                    "are whole, so mend it and run the same command again"
                ) from None
    _summarise(manifest, settings, console)


def _check_apart(source: str, destination: Path) -> None:
    if Path(source).is_dir() and destination.resolve().is_relative_to(Path(source).resolve()):
        raise BenchError(
            f"the shards of {source} cannot be written into it ({destination}): "
            "give a folder elsewhere"
        )


def _described(dataset: Dataset, settings: PackSettings) -> dict[str, object]:
    return {
        "source": dataset.fingerprint,
        "samples": len(dataset),
        "tile": settings.tile,
        "shard_size_bytes": size_from(settings.shard_size),
        "shuffle": settings.shuffle,
    }


def _write_shards(
    dataset: Dataset,
    settings: PackSettings,
    manifest: Manifest,
    crew: Crew,
    *,
    on_position: Callable[[int], None],
) -> None:
    if manifest.complete:
        return
    samples = _samples(dataset, settings, crew, manifest.position, on_position)
    stream = Stream(samples, manifest.position)
    while stream.peek() is not None:
        path = manifest.next_path
        shard = write_shard(path, stream, most_bytes=size_from(settings.shard_size))
        TarDataset([path])  # writes the index
        manifest.add(shard, stream.take_bad())
    bad = stream.take_bad()
    if not manifest.shards:
        raise BenchError(
            f"no sample can be packed (the first of {len(bad)} is {bad[0].key}: {bad[0].reason}): "
            "give a source with sound images"
        )
    manifest.finish(bad)


def _samples(
    dataset: Dataset,
    settings: PackSettings,
    crew: Crew,
    begin: int,
    on_position: Callable[[int], None],
) -> Iterator[Packed | Refused]:
    order = None if settings.shuffle is None else Order(len(dataset), seed=settings.shuffle)

    def fetch(positions: range) -> list[Packed | Refused]:
        places = np.asarray(positions, np.int64)
        indices = places if order is None else order.indices(epoch=0, positions=places)
        return fetch_packed(dataset, positions, indices, tiled=settings.tile)

    length = len(dataset)
    tasks = (range(at, min(at + _CHUNK, length)) for at in range(begin, length, _CHUNK))
    for chunk in crew.map(fetch, tasks):
        for sample in chunk:
            on_position(sample.position)
            yield sample


def _summarise(manifest: Manifest, settings: PackSettings, console: Console) -> None:
    shards, bad = manifest.shards, manifest.bad_samples
    console.print(
        f"{sum(shard['samples'] for shard in shards)} samples in {len(shards)} shards",
        highlight=False,
    )
    if settings.tile:
        tally = Tally(tiled=sum(shard["tiled"] for shard in shards))
        for shard in shards:
            tally.left.update(shard["left"])
        tally.show(console)
    for sample in bad[:_NUM_BAD_SHOWN]:
        text = f"bad sample {printable(sample['key'])} ({sample['stage']}): {sample['reason']}"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if len(bad) > _NUM_BAD_SHOWN:
        text = f"and {len(bad) - _NUM_BAD_SHOWN} more, all named in {NAME}"
        console.print(Text(text, style="yellow"))
    before, after = (sum(shard[name] for shard in shards) for name in ("source_bytes", "bytes"))
    show_sizes(before, after, console)
