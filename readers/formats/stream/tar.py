"""Tars in the convention of WebDataset that can only be read forward: compressed, piped, or from a plain server."""

import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from readers.formats.stream.byte_source import ByteSource, Command, byte_source
from readers.formats.stream.forward import BrokenStreamError, StoredFile, stored_files
from readers.formats.tar.webdataset import label_of
from readers.plural import counted
from readers.sample import BadSample, PathLike, Sample, SourceError
from readers.storage.limits import TooLargeError, check_bytes
from readers.storage.paths import expand_braces
from readers.storage.unreadable import is_transient
from readers.stream import Divide, checked_division, checked_epoch


class TarStream:
    """Samples of tars, one after another, from the first to the last.

    The rules for keys, fields and labels are those of `TarDataset`. What can be told without reading
    forward is missing: there is no length and no `fetch`. A Loader reads it in the order of the tars, or shuffles
    these and what it holds in memory. ``gpu-aug pack`` makes shards of it that can be read at random.

    In a tar that is cut off or damaged the samples before that byte are given, then one BadSample that
    stands for the loss, then the samples of the next tar. A sample of which a part may be lost is lost.

    Args:
        source: A path, a URL or ``pipe:COMMAND``, a pattern of them (``train-{000..099}.tar.gz``), or a
            sequence of these. Tars may be plain or compressed by gzip, bzip2, xz or zstd; their first
            bytes tell.
        allow_pipe: Whether the shell may run the commands of ``pipe:`` sources. Whoever wrote the source
            can do with it whatever you can.
        samples_per_epoch: For a Loader: samples of an epoch, over all ranks. None is as many as there are, which
            one process finds out at the end; several ranks that divide shards need the number, since all must take
            as many steps.
        divide: For a Loader on several ranks: "shards" gives each rank some of the tars; with "samples" each reads
            all of them, and takes its part of every step.

    Raises:
        SourceError: A file is missing, empty or no tar; a command is not allowed; or zstd cannot be read.
    """

    divides_itself = False

    def __init__(
        self,
        source: PathLike | Sequence[PathLike],
        *,
        allow_pipe: bool = False,
        samples_per_epoch: int | None = None,
        divide: Divide = "shards",
    ) -> None:
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
        """How many tars it has."""
        return f"TarStream({counted(self.num_shards, 'tar')})"

    @property
    def num_shards(self) -> int:
        """Number of tars."""
        return len(self._sources)

    def read_shard(self, number: int, epoch: int = 0) -> Iterator[Sample | BadSample]:
        """Give the samples of one tar; see `readers.stream.Stream.read_shard`."""
        del epoch
        return _entries(self._sources[number], 0, 0)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Empty: tars number their classes without naming them."""
        return ()

    @property
    def fingerprint(self) -> str:
        """32 hex digits over what is known without reading: names, and the sizes of files."""
        digest = hashlib.sha256()
        for one in self._sources:
            digest.update(f"{one.name!r} {one.identity()!r}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:32]

    def iterate(self, start: int = 0) -> Iterator[Sample | BadSample]:
        """Give the samples from a number on; ``index`` counts from the beginning of the first tar.

        What lies before it is read as well, without being kept: exact, but not cheap.

        Args:
            start: 0 or more; behind the end nothing is given.

        Raises:
            SourceError: A command failed; its samples were given before.
        """
        if start < 0:
            raise ValueError(f"start must be >= 0, got {start}")
        return self._iterate(start)

    def _iterate(self, start: int) -> Iterator[Sample | BadSample]:
        index = 0
        for source in self._sources:
            index = yield from _entries(source, index, start)


def _exists(name: str) -> bool:
    with suppress(OSError):  # a command can be longer than a path
        return Path(name).exists()
    return False


class _Parts:
    """The members of one sample read so far."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._fields: dict[str, bytes] = {}
        self._fault, self._num_bytes = "", 0

    def add(self, file: StoredFile, *, keep: bool) -> None:
        """Take a file, or pass over it."""
        if file.field in self._fields:
            self._fault = f"the field {file.field} is stored twice"
        self._fault = self._fault or file.fault
        self._num_bytes += file.size_bytes
        try:
            check_bytes(self._num_bytes, f"with {file.field} the sample")
        except TooLargeError as error:
            self._fault = self._fault or str(error)
            self._fields.clear()
        if keep and not self._fault:
            self._fields[file.field] = file.read()

    def entry(self, index: int, name: str) -> Sample | BadSample:
        """The sample, which is whole."""
        key = f"{name}/{self.key}"
        if self._fault:
            return BadSample(index, key, "read", self._fault)
        try:
            return Sample(index, key, self._fields, label_of(self._fields))
        except ValueError as error:
            return BadSample(index, key, "read", str(error))


def _entries(
    source: ByteSource, index: int, start: int
) -> Generator[Sample | BadSample, None, int]:
    """Give the samples of one tar from ``start`` on; return the index behind its last one."""
    first, parts, loss = index, None, None
    try:
        with source.stream() as stream:
            for file in stored_files(stream):
                if parts is not None and file.key != parts.key:
                    if index >= start:
                        yield parts.entry(index, source.name)
                    index, parts = index + 1, None
                parts = parts or _Parts(file.key)
                parts.add(file, keep=index >= start)
            stream.drain()
    except BrokenStreamError as error:
        loss = error
    name = source.name
    if loss:  # the sample that was being read may have gone on
        key = parts.key if parts else f"(byte {loss.offset})"
        entry: Sample | BadSample = BadSample(
            index, f"{name}/{key}", "read", f"{name}: {loss}", transient=is_transient(loss)
        )
    elif parts:
        entry = parts.entry(index, name)
    elif index == first:
        reason = "it holds no samples, whose files are named KEY.EXTENSION"
        entry = BadSample(index, name, "read", f"{name}: {reason}")
    else:
        return index
    if index >= start:
        yield entry
    return index + 1
