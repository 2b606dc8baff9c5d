"""Streams of WebDataset tars that are read only forward: compressed, piped, or from a server without range requests."""

import os
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from readers.datasets.stream import Divide, checked_division, checked_epoch
from readers.fingerprint import fingerprint_of
from readers.formats.stream.byte_source import ByteSource, Command, byte_source
from readers.formats.stream.forward import BrokenStreamError, StoredFile, stored_files
from readers.formats.tar.dotted import ADVICE
from readers.formats.tar.ends import lost_fields, lost_part
from readers.formats.tar.webdataset import KeyRule, checked_rule, label_of, unread_fields
from readers.labels.unlabelled import label_key
from readers.plural import counted
from readers.sample import BadSample, PathLike, Sample, SourceError
from readers.storage.limits import TooLargeError, check_bytes
from readers.storage.paths import expand_braces
from readers.storage.unreadable import is_transient


class TarStream:
    """A stream of the samples in tars, in stored order.

    The rules for keys, fields and labels are those of `TarDataset`. There is no length and no `fetch`, since these need random
    access. A Loader reads the tars in order, or shuffles the tars and a buffer of samples in memory. ``gpu-aug pack`` turns the
    stream into shards with random access.

    If a tar is truncated or damaged, one BadSample stands for all samples from there on, and the next tar is read. A sample
    that may have lost a file counts as lost. Warnings are issued for a tar that ends without zero blocks, and for samples whose
    labels are not read because of their names. Links become bad samples, since their targets are elsewhere in the stream.

    Args:
        source: A path, a URL or ``pipe:COMMAND``, a pattern of these (``train-{000..099}.tar.gz``), or a sequence of them. Tars
            may be uncompressed or compressed by gzip, bzip2, xz or zstd, which is detected.
        allow_pipe: Whether to run the shell commands of ``pipe:`` sources. A command has all your permissions.
        samples_per_epoch: For a Loader: number of samples in an epoch, over all ranks. If None, an epoch has all samples. The
            number is required if several ranks divide shards, since all ranks must take equally many steps.
        keys: Where the key ends in a name with several dots; see `TarDataset`.
        divide: For a Loader on several ranks: with "shards" each rank reads some of the tars; with "samples" each rank reads
            all tars and uses its part of every step.

    Raises:
        SourceError: A file is missing, empty or no tar; ``allow_pipe`` is false for a command; or no package for zstd is
            installed.
    """

    divides_itself = False

    def __init__(
        self,
        source: PathLike | Sequence[PathLike],
        *,
        allow_pipe: bool = False,
        samples_per_epoch: int | None = None,
        divide: Divide = "shards",
        keys: KeyRule = "first-dot",
    ) -> None:
        self._keys, self._warned = checked_rule(keys), set[str]()
        self.samples_per_epoch, self.divide = (
            checked_epoch(samples_per_epoch),
            checked_division(divide),
        )
        items = [source] if isinstance(source, (str, os.PathLike)) else source
        names = [
            name
            for item in [os.fspath(item) for item in items]
            for name in ([item] if "{" not in item or _exists(item) else expand_braces(item))
        ]
        if not names:
            raise SourceError("the list of sources is empty: give paths or URLs of tars")
        self._sources = [byte_source(name, number) for number, name in enumerate(names)]
        command = next((one for one in self._sources if isinstance(one, Command)), None)
        if command and not allow_pipe:
            raise SourceError(
                f"{command.location!r} runs a command: say allow_pipe=True if you trust whoever wrote it"
            )
        for one in self._sources:
            one.check()

    def __iter__(self) -> Iterator[Sample | BadSample]:
        return self.iterate()

    def __repr__(self) -> str:
        """Show the number of tars."""
        return f"TarStream({counted(self.num_shards, 'tar')})"

    @property
    def num_shards(self) -> int:
        """Number of tars."""
        return len(self._sources)

    def read_shard(self, number: int, epoch: int = 0) -> Iterator[Sample | BadSample]:
        """Yield the samples of the tar with this index; see `readers.datasets.stream.Stream.read_shard`."""
        del epoch
        return _entries(self._sources[number], 0, 0, self._keys, self._warned)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names: always empty, since tars hold only class numbers."""
        return ()

    @property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the names and sizes of the files, the URLs without query, the commands, and `keys`."""
        keys = "" if self._keys == "first-dot" else self._keys
        return fingerprint_of(
            *(f"{one.name!r} {one.identity()!r}\n" for one in self._sources), keys
        )

    def iterate(self, start: int = 0) -> Iterator[Sample | BadSample]:
        """Yield the samples of all tars from an index on; indices count from the beginning of the first tar.

        Samples before `start` are read and dropped, which is exact but takes time.

        Args:
            start: Index of the first sample to yield, 0 or more; nothing is yielded if there are fewer samples.

        Raises:
            SourceError: A command failed; this is raised after its samples were yielded.
        """
        if start < 0:
            raise ValueError(f"start must be >= 0, got {start}")
        return self._iterate(start)

    def _iterate(self, start: int) -> Iterator[Sample | BadSample]:
        index = 0
        for source in self._sources:
            index = yield from _entries(source, index, start, self._keys, self._warned)


def _exists(name: str) -> bool:
    with suppress(OSError):  # raised if a command is longer than a path can be
        return Path(name).exists()
    return False


class _Parts:
    """The files of one sample that were read so far.

    Args:
        key: Key of the sample.
    """

    def __init__(self, key: str) -> None:
        self.key, self.fault = key, ""
        self.names: dict[str, None] = {}
        self.fields: dict[str, bytes] = {}
        self._num_bytes = 0

    def add(self, file: StoredFile, *, keep: bool) -> None:
        """Add a file of the sample; read its content only if `keep` is true."""
        if file.field in self.names:
            self.fault = f"the field {file.field} is stored twice"
        self.names[file.field] = None
        self.fault = self.fault or file.fault
        self._num_bytes += file.size_bytes
        try:
            check_bytes(self._num_bytes, f"with {file.field} the sample")
        except TooLargeError as error:
            self.fault = self.fault or str(error)
            self.fields.clear()
        if keep and not self.fault:
            self.fields[file.field] = file.read()

    def entry(self, index: int, name: str) -> Sample | BadSample:
        """Return the sample, after all its files were added; a BadSample if a file cannot be read.

        Args:
            index: Index of the sample.
            name: Name of the source, with which the key begins.
        """
        key = f"{name}/{self.key}"
        if self.fault:
            return BadSample(index, key, "read", self.fault)
        try:
            return Sample(index, key, self.fields, label_of(self.fields))
        except ValueError as error:
            return BadSample(index, key, "read", str(error))


def _entries(
    source: ByteSource, index: int, start: int, keys: KeyRule, warned: set[str]
) -> Generator[Sample | BadSample, None, int]:
    """Yield the samples of one tar.

    Args:
        source: The source of the tar.
        index: Index of the tar's first sample.
        start: Index before which samples are dropped.
        keys: Where the key ends in a name; see `key_and_field`.
        warned: Kinds of warnings that were issued, which are not repeated.

    Returns:
        Index after the last sample of the tar.
    """
    first, parts, bad, name, kinds = index, None, None, source.name, set[tuple[str, ...]]()
    try:
        with source.stream() as stream:
            files = stored_files(stream, keys)
            for (key, _), group in groupby(files, attrgetter("key", "archive")):
                parts = _Parts(key)
                for file in group:
                    parts.add(file, keep=index >= start)
                if stream.remark and (
                    lost := lost_fields(kinds, parts.names)
                ):  # the last sample of the tar
                    parts.fault = parts.fault or lost_part(f"{name}: it may be cut off", lost)
                if (kind := tuple(parts.names)) not in kinds:  # most samples have equal fields
                    kinds.add(kind)
                    _warn_of_labels(name, parts, warned, keys)
                if index >= start:
                    yield parts.entry(index, name)
                index, parts = index + 1, None
            if stream.remark:
                _warn(warned, "end", f"{name} {stream.remark}")
            stream.drain()
    except BrokenStreamError as error:  # the current sample may have more members
        key = parts.key if parts else f"(byte {error.offset})"
        reason, transient = f"{name}: {error}", is_transient(error)
        bad = BadSample(index, f"{name}/{key}", "read", reason, transient=transient)
    if index == first and not bad:
        reason = "it holds no samples, whose files are named KEY.EXTENSION"
        bad = BadSample(index, name, "read", f"{name}: {reason}")
    if bad and index >= start:
        yield bad
    return index + (bad is not None)


def _warn_of_labels(name: str, parts: _Parts, warned: set[str], keys: KeyRule) -> None:
    """Warn if a sample has a label in a field that is not read as its label."""
    if keys == "first-dot" and (unread := unread_fields(parts.names)):
        _warn(
            warned,
            "dots",
            f"{name}: the sample {parts.key} has {', '.join(unread[:3])}, which are not read as its label, targets or masks, as "
            f"the key of a sample ends at the first dot of a name: {ADVICE}",
        )
    if "cls" not in parts.names and (key := label_key(parts.fields.get("json"))):
        _warn(
            warned,
            "json",
            f"{name}: {key!r} in the field json is not read as the label (-1): store it as KEY.cls, or give the Loader "
            'fields={"json": "json"}',
        )


def _warn(warned: set[str], kind: str, text: str) -> None:
    """Issue a warning about a tar, but only once per kind, since a stream may have thousands of tars."""
    if kind not in warned:
        warned.add(kind)
        warnings.warn(f"{text} (said once)", UserWarning, stacklevel=3)
