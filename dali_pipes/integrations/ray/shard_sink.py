"""Write rows of Ray Data as indexed shards."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from dali_pipes.arguments.values import require_one_of
from dali_pipes.errors import BadSampleError, ClusterError, LoaderError
from dali_pipes.integrations.ray.cluster import require_ray
from dali_pipes.integrations.ray.consistency import require_same_versions, versions
from dali_pipes.integrations.ray.rows import samples_of
from readers.formats.tar.dataset import SCAN
from readers.prepare.errors import PrepareError
from readers.prepare.packer import Packed, Packer, Refused
from readers.prepare.packing import size_from
from readers.prepare.stream_packing import Stream, write_stream_shard
from readers.sample import PathLike, ReadersError
from readers.storage.blob import is_url
from readers.storage.destination import create_indexed, open_destination
from readers.storage.remote import StorageOptions

_Datasink: Any = require_ray("ray.data").Datasink
_UserCodeException: Any = require_ray("ray.exceptions").UserCodeException
# Worker errors with a clear message; the driver raises them without Ray's traceback.
_USER_ERRORS = (LoaderError, BadSampleError, ClusterError)
_MANIFEST = "manifest.json"
_VERSION = 1  # version of the manifest, as `readers.prepare.pack` writes it
_COPIED_BYTES = 1 << 20  # bytes copied at a time, to limit the memory of a copy
# Files that an earlier attempt of the same write may have left.
_OURS = re.compile(r"shard-.*\.(tar|parquet)(\.gpuaug-(index|checkpoints))?|manifest\.json")


class SinkError(PrepareError, _UserCodeException):  # type: ignore[misc]  # ray is not typed
    """A write failed because of the data. It is an error of user code, so Ray Data prints it without its own traceback."""


class ShardSink(_Datasink):  # type: ignore[misc]  # ray.data is not typed
    """Writes rows as WebDataset tar or Parquet shards, with ``ds.write_datasink``; `readers.open_dataset` reads them back.

    Rows need a ``key`` (text) and may have a ``label`` (class number), an ``image`` or ``video`` (encoded bytes, stored
    unchanged), and further columns, which become fields: bytes, text (in UTF-8), numbers and booleans (in JSON).
    ``index`` is not stored, because samples of shards are numbered again. Nulls are left out. `DatasetSource` makes
    such rows; for other datasets, rename the columns: ``ds.rename_columns({"bytes": "image", "path": "key"})``.

    Each block becomes one shard, or several if it is larger than `shard_size`. A shard and its index appear complete or
    not at all. The name consists of the first ``index`` and a digest of the content. So a task that Ray repeats on any
    machine writes the same file, and the order of the blocks does not matter. ``manifest.json`` with ``"complete":
    true`` is written last; before that, the same write can be repeated into the folder.

    Args:
        destination: A new or empty folder that all workers reach by this path, or a prefix of an object store.
        format: "tar", or "parquet" in the image format of the Hugging Face hub.
        shard_size: The largest size of a shard, such as "256MB", or a number of bytes. Smaller blocks make smaller
            shards: set the number of blocks with ``override_num_blocks`` of the read, or with ``ds.repartition``.
        class_names: Name of each class number, such as ``dataset.class_names``; rows have only numbers.
        storage: Access to an object store; None uses the settings of `readers.storage.remote.configure`. Credentials
            are those of the worker.

    Raises:
        PrepareError: Before the read, if the destination holds other files or cannot be written; during the write, if a
            row cannot be stored, or two blocks are equal.
        LoaderError: The format is unknown.
        MissingPackageError: Ray is not installed.

    Example:
        >>> import pyarrow as pa
        >>> from dali_pipes.integrations.ray.shard_sink import ShardSink
        >>> image = open_dataset("photos/")[0].image
        >>> sink = ShardSink("shards")
        >>> sink.on_write_start()  # what ds.write_datasink(sink) does, here and on its workers
        >>> [shard] = sink.write([pa.table({"key": ["one", "two"], "image": [image, image]})], None)
        >>> [sample.key.partition("/")[2] for sample in open_dataset(f"shards/{shard['name']}")]
        ['one', 'two']
    """

    def __init__(
        self,
        destination: PathLike,
        *,
        format: Literal["tar", "parquet"] = "tar",
        shard_size: str | int = "256MB",
        class_names: Sequence[str] = (),
        storage: StorageOptions | None = None,
    ) -> None:
        require_one_of("format", format, ("tar", "parquet"))
        if not is_url(os.fspath(destination)):
            # Absolute, because workers have other working directories.
            destination = Path(destination).absolute()
        self._destination, self._format = open_destination(destination, storage), format
        self._most_bytes, self._class_names = size_from(shard_size), tuple(class_names)
        self._driver, self._has_begun = versions(), False

    def on_write_start(self, schema: Any = None) -> None:  # noqa: ARG002  # Ray's
        """On the driver, check the destination and write an incomplete manifest.

        Args:
            schema: Not used: it may describe the input of the last operator instead of its output. `write` checks the rows.

        Raises:
            SinkError: The destination holds other files, or another write.
        """
        where, before = self._destination.location, self._read_manifest()
        names = self._destination.names()
        other = next((name for name in names if before is None or not _OURS.fullmatch(name)), None)
        if other is not None:
            raise SinkError(f"{where} holds something else ({other}): give a new or empty folder")
        if before is not None and (before.get("complete") or before["settings"] != self._settings):
            state = "a finished write" if before.get("complete") else "a write of other settings"
            raise SinkError(f"{where} holds {state}: give a new folder, or empty this one")
        self._has_begun = True
        self._write_manifest([], complete=False)

    def write(self, blocks: Iterable[Any], ctx: Any) -> list[dict[str, Any]]:  # noqa: ARG002  # Ray's
        """On a worker, write blocks as shards.

        Returns:
            The manifest's entry for each shard.
        """
        require_same_versions(self._driver)
        packer = Packer(None, None, self._format == "tar", copied=False)
        indices: list[int | None] = []
        shards = []
        try:
            stream = Stream(_packed(blocks, packer, indices), 0)
            while stream.peek() is not None:
                index = indices[stream.position]
                with tempfile.TemporaryDirectory(prefix="gpuaug-") as scratch:
                    shards.append(self._shard(Path(scratch), stream, index))
        except PrepareError as error:
            raise SinkError(str(error)) from None
        return shards

    def on_write_complete(self, write_result: Any) -> None:
        """On the driver, complete the manifest and remove shards of failed attempts.

        Raises:
            PrepareError: Two blocks are equal.
        """
        shards = sorted(
            (shard for shards in write_result.write_returns for shard in shards),
            key=lambda shard: shard["name"],
        )
        names = [shard["name"] for shard in shards]
        twice = next((name for name, after in pairwise(names) if name == after), None)
        if twice is not None:
            raise PrepareError(
                f"two blocks hold the same rows, those of {twice}: leave one of them out, or give the rows of each other keys"
            )
        position = 0
        for shard in shards:
            shard["begin"], shard["end"] = position, position + shard["samples"]
            position = shard["end"]
        self._remove_all_but({_MANIFEST, *names, *(f"{name}.gpuaug-index" for name in names)})
        self._write_manifest(shards, complete=True)

    def on_write_failed(self, error: Exception) -> None:
        """On the driver, remove the shards; the manifest stays incomplete.

        Raises:
            PrepareError: The error of a worker, without Ray's tracebacks.
            RuntimeError: A source cannot be read, or a worker has other versions.
        """
        before = self._read_manifest()
        if self._has_begun and before is not None and not before.get("complete"):
            self._remove_all_but({_MANIFEST})
        cause = getattr(error, "cause", None) or error
        # The other lines are Ray's and describe its attempts.
        sentence = str(cause).partition("\n")[0]
        if isinstance(cause, ReadersError):
            raise PrepareError(sentence) from None
        if isinstance(cause, _USER_ERRORS):
            raise type(cause)(sentence) from None

    @property
    def _settings(self) -> dict[str, object]:
        named = {"class_names": list(self._class_names)} if self._class_names else {}
        return named | {
            "source": "ray.data",
            "format": self._format,
            "shard_size_bytes": self._most_bytes,
        }

    def _shard(self, scratch: Path, stream: Stream, index: int | None) -> dict[str, Any]:
        """Write one shard with its index, and return its entry in the manifest."""
        path = scratch / f"shard.{self._format}"
        shard = write_stream_shard(
            path,
            stream,
            format=self._format,
            most_bytes=self._most_bytes,
            class_names=self._class_names,
        )
        with path.open("rb") as shard_file:
            digest = hashlib.file_digest(shard_file, "sha256").hexdigest()[:16]
            shard_file.seek(0)
            prefix = "" if index is None else f"{index:012d}-"
            name = f"shard-{prefix}{digest}.{self._format}"
            created = (
                create_indexed(self._destination, name, SCAN)
                if self._format == "tar"
                else self._destination.create(name)
            )
            with created as file:
                shutil.copyfileobj(shard_file, file, _COPIED_BYTES)
        return shard | {"name": name}

    def _read_manifest(self) -> dict[str, Any] | None:
        """Return the manifest of an earlier write by a ShardSink; None if the destination has no such manifest."""
        try:
            manifest = json.loads(self._destination.read(_MANIFEST) or b"")
            return manifest if manifest["settings"]["source"] == "ray.data" else None
        except (ValueError, KeyError, TypeError):
            return None

    def _write_manifest(self, shards: list[dict[str, Any]], *, complete: bool) -> None:
        content = {
            "version": _VERSION,
            "settings": self._settings,
            "class_names": list(self._class_names),
            "complete": complete,
            "shards": shards,
            "bad_samples": [],
        }
        with self._destination.create(_MANIFEST) as file:
            file.write(json.dumps(content, indent=1).encode())

    def _remove_all_but(self, names: set[str]) -> None:
        for name in [*self._destination.names()]:
            if name not in names and _OURS.fullmatch(name):
                self._destination.remove(name)


def _packed(
    blocks: Iterable[Any], packer: Packer, indices: list[int | None]
) -> Iterator[Packed | Refused]:
    """Yield rows in their stored form, and append the index of each to `indices`.

    Raises:
        PrepareError: A row cannot be written.
    """
    for index, sample in samples_of(blocks, need_image=not packer.headers):
        [packed] = packer([sample])
        if isinstance(packed, Refused):
            raise PrepareError(
                f"row {sample.key[1:]} cannot be written ({packed.bad.reason}): leave it out with ds.filter, or repair it"
            )
        indices.append(index)
        yield packed
