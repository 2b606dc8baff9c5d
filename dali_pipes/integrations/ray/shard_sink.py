"""Rows of Ray Data as indexed shards."""

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
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.rows import samples_of
from dali_pipes.integrations.ray.versions import require_same, versions
from readers.formats.tar.dataset import SCAN
from readers.prepare.errors import PrepareError
from readers.prepare.packer import Packed, Packer, Refused
from readers.prepare.packing import size_from
from readers.prepare.shard_stream import Stream, write_parquet, write_tar
from readers.sample import PathLike, ReadersError
from readers.storage.blob import is_url
from readers.storage.destination import create_indexed, open_destination
from readers.storage.remote import StorageOptions

_Datasink: Any = require_ray("ray.data").Datasink
_UserCodeException: Any = require_ray("ray.exceptions").UserCodeException
_TOLD = (LoaderError, BadSampleError, ClusterError)  # each says what to do
_MANIFEST = "manifest.json"
_VERSION = 1
_COPIED_BYTES = 1 << 20
_OURS = re.compile(r"shard-.*\.(tar|parquet)(\.gpuaug-(index|checkpoints))?|manifest\.json")


class SinkError(PrepareError, _UserCodeException):  # type: ignore[misc]  # ray is not typed
    """A write that cannot be done; its base of Ray's keeps Ray Data from printing its own stack at length."""


class ShardSink(_Datasink):  # type: ignore[misc]  # ray.data is not typed
    """Rows as WebDataset tar or Parquet shards, for ``ds.write_datasink``; `readers.open_dataset` reads them back.

    Rows have a ``key`` (text) and, where they have them, a ``label`` (a class number), an ``image`` or ``video`` (encoded
    bytes, which stay as they are), and further columns, which become fields: bytes, text (in UTF-8), numbers and truth
    values (as JSON writes them). ``index`` is not kept: samples of shards are numbered anew. Nulls are left out. That is
    what `DatasetSource` gives; other datasets rename their columns, ``ds.rename_columns({"bytes": "image", "path": "key"})``.

    Each block becomes one shard, or several where it is larger than that. A shard and its index appear only whole, under a
    name made of the first ``index`` and of a digest of its content: so a task that Ray runs again, on whatever machine,
    writes the same file, and the folder does not depend on the order in which blocks were done. ``manifest.json`` with
    ``"complete": true`` comes last; until then the folder is one that the same write can be run into again.

    Args:
        destination: A new or empty folder, which all workers reach by this path, or prefix of an object store.
        format: "tar", or "parquet" in the image format of the Hugging Face hub.
        shard_size: The largest size, such as "256MB", or a number of bytes. Smaller blocks give smaller shards: ``override_num_blocks`` of the
            read, or ``ds.repartition``, says how many there are.
        class_names: Name of each class number, such as ``dataset.class_names``: rows have numbers alone.
        storage: How an object store is reached; None takes what `readers.storage.remote.configure` set. Credentials are
            those of the worker.

    Raises:
        PrepareError: Before anything is read, where the destination holds something else or cannot be written; while
            writing, where a row cannot be kept as it is, or two blocks are equal.
        LoaderError: The format is no format.
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
            destination = Path(destination).absolute()  # workers stand in other folders
        self._destination, self._format = open_destination(destination, storage), format
        self._most_bytes, self._class_names = size_from(shard_size), tuple(class_names)
        self._driver, self._has_begun = versions(), False

    def on_write_start(self, schema: Any = None) -> None:  # noqa: ARG002  # Ray's
        """Refuse a destination that holds something else, and note what it is for; on the driver.

        Args:
            schema: Of what the last operator is given, which may not be what it writes: rows are checked by `write`.
        """
        where, before = self._destination.location, self._before()
        others = (name for name in self._destination.names() if not _OURS.fullmatch(name))
        other = next(others if before is not None else self._destination.names(), None)
        if other is not None:
            raise SinkError(f"{where} holds something else ({other}): give a new or empty folder")
        if before is not None and (before.get("complete") or before["settings"] != self._settings):
            state = "a finished write" if before.get("complete") else "a write of other settings"
            raise SinkError(f"{where} holds {state}: give a new folder, or empty this one")
        self._has_begun = True
        self._note([], complete=False)

    def write(self, blocks: Iterable[Any], ctx: Any) -> list[dict[str, Any]]:  # noqa: ARG002  # Ray's
        """Write blocks, on a worker.

        Returns:
            What the manifest notes of each shard.
        """
        require_same(self._driver)
        packer = Packer(None, None, self._format == "tar", copied=False)
        firsts: list[int | None] = []
        shards = []
        try:
            stream = Stream(_packed(blocks, packer, firsts), 0)
            while stream.peek() is not None:
                index = firsts[stream.position]
                with tempfile.TemporaryDirectory(prefix="gpuaug-") as scratch:
                    shards.append(self._shard(Path(scratch), stream, index))
        except PrepareError as error:
            raise SinkError(str(error)) from None
        return shards

    def on_write_complete(self, write_result: Any) -> None:
        """Note the shards in the manifest, and remove what attempts left that came to nothing; on the driver."""
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
        self._note(shards, complete=True)

    def on_write_failed(self, error: Exception) -> None:
        """Remove the shards; the manifest goes on to say that they are not complete. On the driver.

        Raises:
            PrepareError: The sentence that a worker raised, without the stacks of Ray.
            RuntimeError: The same, of a source that cannot be read or a worker with other versions.
        """
        before = self._before()
        if self._has_begun and before is not None and not before.get("complete"):
            self._remove_all_but({_MANIFEST})
        told = getattr(error, "cause", None) or error
        sentence = str(told).partition("\n")[0]  # Ray writes of attempts behind it
        if isinstance(told, ReadersError):
            raise PrepareError(sentence) from None
        if isinstance(told, _TOLD):
            raise type(told)(sentence) from None

    @property
    def _settings(self) -> dict[str, object]:
        named = {"class_names": list(self._class_names)} if self._class_names else {}
        return named | {
            "source": "ray.data",
            "format": self._format,
            "shard_size_bytes": self._most_bytes,
        }

    def _shard(self, scratch: Path, stream: Stream, index: int | None) -> dict[str, Any]:
        """Write a shard and its index; the name of the shard is only known once it is made."""
        path = scratch / f"shard.{self._format}"
        if self._format == "parquet":
            shard, _ = write_parquet(
                path, stream, most_bytes=self._most_bytes, class_names=self._class_names
            )
        else:
            shard, _ = write_tar(path, stream, most_bytes=self._most_bytes)
        with path.open("rb") as made:
            digest = hashlib.file_digest(made, "sha256").hexdigest()[:16]
            made.seek(0)
            place = "" if index is None else f"{index:012d}-"
            name = f"shard-{place}{digest}.{self._format}"
            created = (
                create_indexed(self._destination, name, SCAN)
                if self._format == "tar"
                else self._destination.create(name)
            )
            with created as file:
                shutil.copyfileobj(made, file, _COPIED_BYTES)
        return shard | {"name": name}

    def _before(self) -> dict[str, Any] | None:
        """The manifest that is there; None where there is none of ours."""
        try:
            found = json.loads(self._destination.read(_MANIFEST) or b"")
            return found if found["settings"]["source"] == "ray.data" else None
        except (ValueError, KeyError, TypeError):
            return None

    def _note(self, shards: list[dict[str, Any]], *, complete: bool) -> None:
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
    blocks: Iterable[Any], packer: Packer, firsts: list[int | None]
) -> Iterator[Packed | Refused]:
    """Rows ready to be written, and the index of each."""
    for index, sample in samples_of(blocks, need_image=not packer.headers):
        [packed] = packer([sample])
        if isinstance(packed, Refused):
            raise PrepareError(
                f"row {sample.key[1:]} cannot be written ({packed.bad.reason}): leave it out with ds.filter, or mend it"
            )
        firsts.append(index)
        yield packed
