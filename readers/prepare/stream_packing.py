"""Packing a source that is read from front to back: shard after shard, on this machine."""

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from readers.formats.parquet.dataset import ParquetDataset
from readers.formats.stream import TarStream
from readers.formats.tar.dataset import TarDataset
from readers.jpeg_seek_points.finder import Finder
from readers.jpeg_seek_points.locations import write_beside
from readers.prepare.errors import PrepareError
from readers.prepare.pack_progress import Manifest
from readers.prepare.packed import Packing, Totals
from readers.prepare.packer import Packed, Packer, Refused
from readers.prepare.shard_stream import Stream, write_parquet, write_tar
from readers.prepare.workers import Threads
from readers.sample import BadSample, Sample
from readers.storage.destination import open_destination
from readers.storage.lock import lock_folder

_TASK_SAMPLES = 8  # whose sizes are not known before


def pack_stream(
    source: str,
    stream: TarStream,
    destination: Path,
    *,
    format: str,
    bytes_per_shard: int,
    finder: Finder | None,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> Packing:
    """Pack what comes from a stream; see `readers.prepare.pack`."""
    settings: dict[str, object] = {
        "source": _stream_id(source, stream),
        "samples": None,
        "tile": False,
        "shard_size_bytes": bytes_per_shard,
        "shuffle": None,
    }
    if format != "tar":
        settings["format"] = format
    with lock_folder(destination):
        manifest = Manifest(destination, settings, ())
        try:
            packer = Packer(None, None, format == "tar", copied=False, finder=finder)
            _write_shards(
                stream, format, bytes_per_shard, packer, manifest, num_workers, on_progress
            )
        except OSError as error:
            raise PrepareError(
                f"{destination} cannot be written ({error.strerror}): the shards that are there "
                "are whole, so mend it and run the same command again"
            ) from None
    totals = Totals(bad=len(manifest.bad_samples))
    for shard in manifest.shards:
        totals.add(shard)
    return Packing(open_destination(destination), totals, is_stream=True)


def _stream_id(source: str, stream: TarStream) -> str:
    """Identify a stream without reading it; for files this includes their paths."""
    is_elsewhere = source.startswith("pipe:") or "://" in source
    path = "" if is_elsewhere else str(Path(source).absolute())
    return hashlib.sha256(f"{stream.fingerprint} {path!r}".encode()).hexdigest()[:32]


def _write_shards(
    source: TarStream,
    format: str,
    bytes_per_shard: int,
    packer: Packer,
    manifest: Manifest,
    num_workers: int,
    on_progress: Callable[[int, int | None], None],
) -> None:
    manifest.check_shards()
    if manifest.complete:
        return
    on_progress(manifest.position, None)
    with Threads(num_workers) as threads:
        done = threads.map(packer, _pieces(source.iterate(start=manifest.position)))
        samples: Iterator[Packed | Refused] = (one for some in done for one in some)
        stream = Stream(samples, manifest.position)
        while stream.peek() is not None:
            manifest.begin()
            path = manifest.next_path(format)
            if format == "parquet":
                shard, checkpoints = write_parquet(
                    path, stream, most_bytes=bytes_per_shard, class_names=()
                )
            else:
                shard, checkpoints = write_tar(path, stream, most_bytes=bytes_per_shard)
                TarDataset([path])  # writes the index
            if packer.finder is not None:
                [file] = (
                    ParquetDataset(path) if format == "parquet" else TarDataset([path])
                ).sample_files
                write_beside(file, packer.finder.version, checkpoints)
            manifest.add(shard, stream.take_bad())
            on_progress(stream.position, None)
    bad = stream.take_bad()
    if not manifest.shards:
        raise PrepareError(
            f"no sample can be packed (the first of {len(bad)} is {bad[0].key}: {bad[0].reason}): "
            "give a source with sound images"
        )
    manifest.finish(bad)


def _pieces(samples: Iterator[Sample | BadSample]) -> Iterator[list[Sample | BadSample]]:
    while piece := list(islice(samples, _TASK_SAMPLES)):
        yield piece
