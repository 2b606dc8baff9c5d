"""Any dataset as WebDataset tar or Parquet shards, the former with their indexes beside them."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.formats.tar.dataset import TarDataset
from readers.label_vector import label_shape_of
from readers.order import Order
from readers.prepare.atomic_files import locked
from readers.prepare.errors import PrepareError
from readers.prepare.jpegs import JpegCounts, TileJpeg
from readers.prepare.pack_progress import Manifest
from readers.prepare.packer import Packed, Packer, Refused
from readers.prepare.parquet_shards import write_parquet
from readers.prepare.source import open_source
from readers.prepare.tar_shards import Stream, write_tar
from readers.prepare.workers import Processes, Threads, checked_workers
from readers.sample import BadSample, Dataset, Sample
from readers.video.frame_folder import FrameFolderDataset

_TASK_BYTES = 500_000  # fetched per task: little, since whatever is under way is held in memory
_TASK_SAMPLES = 512
_STREAM_TASK_SAMPLES = 8  # of a source that is read forward, whose sizes are not known before
# From here on starting processes, 2 s, is worth it.
_NUM_SAMPLES_FOR_PROCESSES = 50_000
_SUFFIXES = (".tar", ".parquet", ".tfrecord", ".zip", ".tgz", ".gz", ".lmdb", ".h5", ".hdf5")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class Packing:
    """The result of `pack`: the contents of the folder of shards.

    Attributes:
        shards: For each its name, begin and end (positions in the order), samples, bytes, source_bytes,
            tiled and left (numbers of JPEGs, the latter by reason).
        bad_samples: key, stage and reason of each sample that was not packed.
        breaks: Those of a source read from front to back at which it breaks off, so that what came behind is lost.
    """

    shards: list[dict[str, Any]]
    bad_samples: list[dict[str, str]]
    breaks: list[dict[str, str]]

    @property
    def num_samples(self) -> int:
        """Number of packed samples."""
        return sum(shard["samples"] for shard in self.shards)

    @property
    def jpegs(self) -> JpegCounts:
        """Numbers of tiled and untiled JPEGs; both are 0 if tiling was off."""
        counts = JpegCounts(tiled=sum(shard["tiled"] for shard in self.shards))
        for shard in self.shards:
            counts.left.update(shard["left"])
        return counts


@dataclass(frozen=True)
class _Settings:
    """The settings that determine the shards; see `pack`."""

    format: str
    tile_jpeg: TileJpeg | None
    shard_size_bytes: int
    shuffle: int | None

    def __post_init__(self) -> None:
        if self.format not in ("tar", "parquet"):
            raise PrepareError(f"format must be tar or parquet, got {self.format!r}: choose one")
        if self.shuffle is not None and self.shuffle < 0:
            raise PrepareError(f"shuffle must be 0 or more, got {self.shuffle}: it is a seed")


def size_from(text: str) -> int:
    """Bytes in a size such as 256MB (10^6 each) or 1GiB (2^30).

    Raises:
        PrepareError: The text is not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    size = 0
    if found:
        exponent = " kmgt".index(found[2].lower() or " ")
        size = round(float(found[1]) * (1024 if found[3] else 1000) ** exponent)
    if size < 1:
        raise PrepareError(
            f"a size must be a number with kB, MB, GB or MiB behind it, got {text!r}"
        )
    return size


def pack(
    source: str,
    destination: str | Path,
    *,
    format: Literal["tar", "parquet"] = "tar",
    shard_size: str = "256MB",
    shuffle: int | None = None,
    tile_jpeg: TileJpeg | None = None,
    allow_pipe: bool = False,
    source_format: str | None = None,
    num_workers: int | None = None,
    on_progress: Callable[[int, int | None], None] = lambda *_: None,
    **options: Any,
) -> Packing:
    """Write the shards of a dataset that are not there yet.

    The same source and settings give the same bytes, however often the work is broken off and begun again.

    Args:
        source: A source as for `readers.open_dataset`.
        destination: The folder of the shards; it may hold a part of them.
        format: "tar" (WebDataset) or "parquet".
        shard_size: The largest size of a shard, such as "256MB" or "1GiB".
        shuffle: Seed of the order; the order of the source when None.
        tile_jpeg: Puts restart markers into each JPEG, see `tile`; it must be picklable. None leaves them alone.
        allow_pipe: Whether the source may be ``pipe:COMMAND``, which is run.
        source_format: Name of the source's format, such as "stream"; None tells it from the source.
        num_workers: Threads, or processes where there is much to do; all cores when None.
        on_progress: Called with the number of samples that are done and of all, None where that is unknown.
        options: ``split`` and options of the source's format, as for `readers.open_dataset`.

    Raises:
        PrepareError: The destination cannot be written, has the name of a file, holds something else, or lies
            within the source; or not one sample can be packed.
        ReadersError: There is nothing to read.

    Example:
        >>> from readers.prepare import pack
        >>> packed = pack("photos/", "shards/", shard_size="64MB", shuffle=0)
        >>> packed.num_samples, [shard["name"] for shard in packed.shards]
        (36, ['shard-000000.tar'])
    """
    settings = _Settings(format, tile_jpeg, size_from(shard_size), shuffle)
    workers, destination = checked_workers(num_workers), Path(destination)
    _check_folder(destination, format)
    _check_apart(source, destination)
    dataset = open_source(source, format=source_format, allow_pipe=allow_pipe, **options)
    _check_source(source, dataset, settings)
    with locked(destination):
        class_names = () if isinstance(dataset, TarStream) else dataset.class_names
        manifest = Manifest(destination, _described(source, dataset, settings), class_names)
        try:
            _write_shards(dataset, settings, manifest, workers, on_progress)
        except OSError as error:
            raise PrepareError(
                f"{destination} cannot be written ({error.strerror}): the shards that are there "
                "are whole, so mend it and run the same command again"
            ) from None
    bad = manifest.bad_samples
    breaks = [one for one in bad if one["stage"] == "read" and isinstance(dataset, TarStream)]
    return Packing(manifest.shards, bad, breaks)


def _check_folder(destination: Path, format: str) -> None:
    """Refuse the name of a file, behind which somebody expects one shard of that format."""
    suffix = destination.suffix.lower()
    if suffix in _SUFFIXES and not destination.is_dir():
        wanted = suffix[1:] if suffix in (".tar", ".parquet") else format
        raise PrepareError(
            f"DST is the folder of the shards, got the name of a file, {destination}: say gpu-aug pack SRC "
            f"{destination.with_suffix('')} --format {wanted}"
        )


def _check_apart(source: str, destination: Path) -> None:
    if Path(source).is_dir() and destination.resolve().is_relative_to(Path(source).resolve()):
        raise PrepareError(
            f"the shards of {source} cannot be written into it ({destination}): "
            "give a folder elsewhere"
        )


def _check_source(source: str, dataset: Dataset | TarStream, settings: _Settings) -> None:
    if isinstance(dataset, TarStream) and settings.shuffle is not None:
        raise PrepareError(
            f"{source} can only be read forward, so --shuffle cannot be: pack it in order, and the "
            "loader will shuffle, or pack the result again"
        )
    if not isinstance(dataset, TarStream) and label_shape_of(dataset) != ():
        raise PrepareError(
            f"{source} has vectors as labels, and shards hold class numbers: pack the data without these labels (without "
            "the options that make them), and give them to the shards, open_dataset(shards, labels=...)"
        )
    if isinstance(dataset, FrameFolderDataset):
        raise PrepareError(
            f"{source} holds folders of frames, which no shard holds: make a video of each (ffmpeg -framerate 25 "
            "-i img_%05d.jpg video.mp4) and pack these, or train on the folders as they are"
        )
    if isinstance(dataset, LeRobotDataset):
        raise PrepareError(
            f"{source} is a LeRobot dataset, whose videos hold many episodes and whose frames no shard holds: train on "
            "the folder as it is"
        )


def _described(source: str, dataset: Dataset | TarStream, settings: _Settings) -> dict[str, object]:
    """The settings as the manifest records them, so that a pack is not continued with other settings."""
    is_stream = isinstance(dataset, TarStream)
    described: dict[str, object] = {
        "source": _stream_id(source, dataset)
        if isinstance(dataset, TarStream)
        else dataset.fingerprint,
        "samples": None if is_stream else len(dataset),  # type: ignore[arg-type]
        "tile": settings.tile_jpeg is not None,
        "shard_size_bytes": settings.shard_size_bytes,
        "shuffle": settings.shuffle,
    }
    return described if settings.format == "tar" else described | {"format": settings.format}


def _stream_id(source: str, stream: TarStream) -> str:
    """Identify a stream without reading it; for files this includes their paths."""
    is_elsewhere = source.startswith("pipe:") or "://" in source
    path = "" if is_elsewhere else str(Path(source).absolute())
    return hashlib.sha256(f"{stream.fingerprint} {path!r}".encode()).hexdigest()[:32]


def _write_shards(
    dataset: Dataset | TarStream,
    settings: _Settings,
    manifest: Manifest,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> None:
    manifest.check_shards()
    if manifest.complete:
        return
    total = None if isinstance(dataset, TarStream) else len(dataset)
    on_progress(manifest.position, total)
    with _workers(dataset, settings, num_workers) as (workers, packer):
        samples = _samples(dataset, workers, packer, manifest.position)
        stream = Stream(samples, manifest.position)
        while stream.peek() is not None:
            manifest.begin()
            path = manifest.next_path(settings.format)
            most_bytes = settings.shard_size_bytes
            if settings.format == "parquet":
                names = () if isinstance(dataset, TarStream) else dataset.class_names
                shard = write_parquet(path, stream, most_bytes=most_bytes, class_names=names)
            else:
                shard = write_tar(path, stream, most_bytes=most_bytes)
                TarDataset([path])  # writes the index
            manifest.add(shard, stream.take_bad())
            on_progress(stream.position, total)
    bad = stream.take_bad()
    if not manifest.shards:
        raise PrepareError(
            f"no sample can be packed (the first of {len(bad)} is {bad[0].key}: {bad[0].reason}): "
            "give a source with sound images"
        )
    manifest.finish(bad)


@contextmanager
def _workers(
    dataset: Dataset | TarStream, settings: _Settings, num_workers: int
) -> Iterator[tuple[Threads, Packer]]:
    """Threads, or processes where there is much to do."""
    random = None if isinstance(dataset, TarStream) else dataset
    many = random is not None and len(random) >= _NUM_SAMPLES_FOR_PROCESSES and num_workers > 1
    order = None
    if random is not None and settings.shuffle is not None:
        order = Order(len(random), seed=settings.shuffle)
    packer = Packer(random, order, settings.tile_jpeg, settings.format == "tar", copied=many)
    with Processes(num_workers, packer) if many else Threads(num_workers) as workers:
        yield workers, packer


def _samples(
    dataset: Dataset | TarStream, workers: Threads, packer: Packer, begin: int
) -> Iterator[Packed | Refused]:
    tasks: Iterable[range | list[Sample | BadSample]]
    if isinstance(dataset, TarStream):
        tasks = _pieces(dataset.iterate(start=begin))
    else:
        step = _samples_per_task(dataset)
        stops = range(begin + step, len(dataset) + step, step)
        tasks = (range(stop - step, min(stop, len(dataset))) for stop in stops)
    for chunk in workers.map(packer, tasks):
        yield from chunk


def _samples_per_task(dataset: Dataset) -> int:
    """As many samples as make up a task, going by a few of them."""
    some = Order(len(dataset)).indices(0, np.arange(min(16, len(dataset))))
    sizes = [
        sum(map(len, entry.fields.values()))
        for entry in dataset.fetch(some)
        if isinstance(entry, Sample)
    ]
    mean_bytes = sum(sizes) / max(len(sizes), 1)
    return min(_TASK_SAMPLES, max(1, int(_TASK_BYTES / max(mean_bytes, 1))))


def _pieces(samples: Iterator[Sample | BadSample]) -> Iterator[list[Sample | BadSample]]:
    while piece := list(islice(samples, _STREAM_TASK_SAMPLES)):
        yield piece
