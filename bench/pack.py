"""Any dataset as WebDataset tar or Parquet shards, the former with their indexes beside them."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from bench.crew import Crew, ProcessCrew, checked_workers
from bench.errors import BenchError
from bench.manifest import NAME, Manifest
from bench.packing import Packed, Packer, Refused
from bench.parquet_writer import write_parquet
from bench.progress import samples_bar
from bench.shard_writer import Stream, write_shard
from bench.source import open_source
from bench.tiling import Tally, printable, show_sizes
from bench.whole import held
from readers import BadSample, Dataset, Order, Sample, TarDataset
from readers.formats.stream import TarStream
from readers.plural import counted
from readers.video import FrameFolderDataset

_TASK_BYTES = 500_000  # fetched per task: little, since whatever is under way is held in memory
_TASK_SAMPLES = 512
_STREAM_TASK_SAMPLES = 8  # of a source that is read forward, whose sizes are not known before
# From here on starting processes, 2 s, is worth it.
_NUM_SAMPLES_FOR_PROCESSES = 50_000
_NUM_BAD_SHOWN = 5
_SUFFIXES = (".tar", ".parquet", ".tfrecord", ".zip", ".tgz", ".gz", ".lmdb", ".h5", ".hdf5")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class PackSettings:
    """What decides about the shards, in the words of the command line.

    Attributes:
        format: Of the shards: "tar" or "parquet".
        tile: Put restart markers into every JPEG.
        shard_size: The largest size of a shard, such as 256MB or 1GiB.
        shuffle: Seed of the order; the order of the source when None.
        allow_pipe: Whether the source may be a command.
        source_format: Name of the source's format, such as "stream"; None tells it from the source.
    """

    format: str = "tar"
    tile: bool = False
    shard_size: str = "256MB"
    shuffle: int | None = None
    allow_pipe: bool = False
    source_format: str | None = None

    def __post_init__(self) -> None:
        if self.format not in ("tar", "parquet"):
            raise BenchError(f"format must be tar or parquet, got {self.format!r}: choose one")
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
        BenchError: The destination cannot be written, has the name of a file, holds something else, or lies
            within the source; or not one sample can be packed.
        readers.ReadersError: There is nothing to read.
    """
    workers = checked_workers(num_workers)
    _check_folder(destination, settings.format)
    _check_apart(source, destination)
    dataset, console = (
        open_source(source, format=settings.source_format, allow_pipe=settings.allow_pipe),
        Console(),
    )
    if isinstance(dataset, TarStream) and settings.shuffle is not None:
        raise BenchError(
            f"{source} can only be read forward, so --shuffle cannot be: pack it in order, and the "
            "loader will shuffle, or pack the result again"
        )
    if isinstance(dataset, FrameFolderDataset):
        raise BenchError(
            f"{source} holds folders of frames, which no shard holds: make a video of each (ffmpeg -framerate 25 "
            "-i img_%05d.jpg video.mp4) and pack these, or train on the folders as they are"
        )
    with held(destination):
        class_names = () if isinstance(dataset, TarStream) else dataset.class_names
        manifest = Manifest(destination, _described(source, dataset, settings), class_names)
        with samples_bar(console) as bar:
            try:
                _write_shards(dataset, settings, manifest, workers, bar)
            except OSError as error:
                raise BenchError(
                    f"{destination} cannot be written ({error.strerror}): the shards that are there "
                    "are whole, so mend it and run the same command again"
                ) from None
    _summarise(manifest, settings, console)
    lost = [bad for bad in manifest.bad_samples if bad["stage"] == "read"]
    if lost and isinstance(dataset, TarStream):  # not one sample, but all that came behind it
        raise BenchError(
            f"{source} breaks off in {len(lost)} places, the first at {printable(lost[0]['key'])}: what could be "
            "read is packed; mend the source and pack it into a new folder to have the rest"
        )


def _check_folder(destination: Path, format: str) -> None:
    """Refuse the name of a file, behind which somebody expects one shard of that format."""
    suffix = destination.suffix.lower()
    if suffix in _SUFFIXES and not destination.is_dir():
        wanted = suffix[1:] if suffix in (".tar", ".parquet") else format
        raise BenchError(
            f"DST is the folder of the shards, got the name of a file, {destination}: say gpu-aug pack SRC "
            f"{destination.with_suffix('')} --format {wanted}"
        )


def _check_apart(source: str, destination: Path) -> None:
    if Path(source).is_dir() and destination.resolve().is_relative_to(Path(source).resolve()):
        raise BenchError(
            f"the shards of {source} cannot be written into it ({destination}): "
            "give a folder elsewhere"
        )


def _described(
    source: str, dataset: Dataset | TarStream, settings: PackSettings
) -> dict[str, object]:
    described: dict[str, object] = {
        "source": _stream_id(source, dataset)
        if isinstance(dataset, TarStream)
        else dataset.fingerprint,
        "samples": None if isinstance(dataset, TarStream) else len(dataset),
        "tile": settings.tile,
        "shard_size_bytes": size_from(settings.shard_size),
        "shuffle": settings.shuffle,
    }
    return described if settings.format == "tar" else described | {"format": settings.format}


def _stream_id(source: str, stream: TarStream) -> str:
    """What tells a stream from another one without reading it: of files also where they lie."""
    is_elsewhere = source.startswith("pipe:") or "://" in source
    place = "" if is_elsewhere else str(Path(source).absolute())
    return hashlib.sha256(f"{stream.fingerprint} {place!r}".encode()).hexdigest()[:32]


def _write_shards(
    dataset: Dataset | TarStream,
    settings: PackSettings,
    manifest: Manifest,
    workers: int,
    bar: Progress,
) -> None:
    manifest.check_shards()
    if manifest.complete:
        return
    total = None if isinstance(dataset, TarStream) else len(dataset)
    task = bar.add_task("", total=total, completed=manifest.position)
    most_bytes = size_from(settings.shard_size)
    with _crew(dataset, settings, workers) as (crew, packer):
        stream = Stream(_samples(dataset, crew, packer, manifest.position), manifest.position)
        while stream.peek() is not None:
            manifest.begin()
            path = manifest.next_path(settings.format)
            if settings.format == "parquet":
                names = () if isinstance(dataset, TarStream) else dataset.class_names
                shard = write_parquet(path, stream, most_bytes=most_bytes, class_names=names)
            else:
                shard = write_shard(path, stream, most_bytes=most_bytes)
                TarDataset([path])  # writes the index
            manifest.add(shard, stream.take_bad())
            bar.update(task, completed=stream.position)
    bad = stream.take_bad()
    if not manifest.shards:
        raise BenchError(
            f"no sample can be packed (the first of {len(bad)} is {bad[0].key}: {bad[0].reason}): "
            "give a source with sound images"
        )
    manifest.finish(bad)


@contextmanager
def _crew(
    dataset: Dataset | TarStream, settings: PackSettings, workers: int
) -> Iterator[tuple[Crew, Packer]]:
    """Threads, or processes where there is much to do."""
    random = None if isinstance(dataset, TarStream) else dataset
    many = random is not None and len(random) >= _NUM_SAMPLES_FOR_PROCESSES and workers > 1
    order = None
    if random is not None and settings.shuffle is not None:
        order = Order(len(random), seed=settings.shuffle)
    packer = Packer(random, order, settings.tile, settings.format == "tar", copied=many)
    with ProcessCrew(workers, packer) if many else Crew(workers) as crew:
        yield crew, packer


def _samples(
    dataset: Dataset | TarStream, crew: Crew, packer: Packer, begin: int
) -> Iterator[Packed | Refused]:
    tasks: Iterable[range | list[Sample | BadSample]]
    if isinstance(dataset, TarStream):
        tasks = _pieces(dataset.iterate(start=begin))
    else:
        step = _samples_per_task(dataset)
        stops = range(begin + step, len(dataset) + step, step)
        tasks = (range(stop - step, min(stop, len(dataset))) for stop in stops)
    for chunk in crew.map(packer, tasks):
        yield from chunk


def _samples_per_task(dataset: Dataset) -> int:
    """As many samples as make up a task, going by a few of them."""
    places = Order(len(dataset)).indices(0, np.arange(min(16, len(dataset))))
    sizes = [
        sum(map(len, entry.fields.values()))
        for entry in dataset.fetch(places)
        if isinstance(entry, Sample)
    ]
    mean_bytes = sum(sizes) / max(len(sizes), 1)
    return min(_TASK_SAMPLES, max(1, int(_TASK_BYTES / max(mean_bytes, 1))))


def _pieces(samples: Iterator[Sample | BadSample]) -> Iterator[list[Sample | BadSample]]:
    while piece := list(islice(samples, _STREAM_TASK_SAMPLES)):
        yield piece


def _summarise(manifest: Manifest, settings: PackSettings, console: Console) -> None:
    shards, bad = manifest.shards, manifest.bad_samples
    console.print(
        f"{counted(sum(shard['samples'] for shard in shards), 'sample')} in {counted(len(shards), 'shard')}",
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
