"""Byte sources that are read only forward: a file, a URL, or a shell command."""

import io
import os
import re
import signal
import subprocess
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from readers.formats.stream.forward import BrokenStreamError, Forward, zstd_library
from readers.sample import SourceError
from readers.storage.unreadable import reason_of

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
"""Scheme of a URL by RFC 3986."""
_PIPE = "pipe:"
"""WebDataset's prefix of shell commands."""
_BLOCK_BYTES = 512
"""Size in bytes of a tar header."""


class ByteSource(ABC):
    """Base class of the sources of a stream, each of which holds one tar.

    Attributes:
        location: Path, URL or command, as given.
        name: Name with which keys begin, without folders of this machine.
    """

    def __init__(self, location: str, name: str) -> None:
        self.location, self.name = location, name

    def check(self) -> None:
        """Check that the source can be read, as far as that is cheap.

        Raises:
            SourceError: The source cannot be read.
        """
        if self.name.lower().endswith((".zst", ".tzst")):
            zstd_library()

    def identity(self) -> str:
        """Return text that identifies the content, for fingerprints, as far as possible without reading it."""
        return ""

    @abstractmethod
    def stream(self) -> AbstractContextManager[Forward]:
        """Return a context manager that opens the source for reading from its beginning, and closes it.

        Raises:
            BrokenStreamError: The source cannot be opened.
            SourceError: The command of the source failed.
        """


def byte_source(location: str, number: int) -> ByteSource:
    """Return the source at a location.

    Args:
        location: A path, a URL, or ``pipe:`` and a command.
        number: Index of the source, used in the name of a command.
    """
    if location.startswith(_PIPE):
        return Command(location, f"pipe-{number}")
    if _URL.match(location):
        return Url(location, re.split(r"[?#]", location)[0].rstrip("/").rpartition("/")[2])
    return LocalFile(location, Path(location).name)


class LocalFile(ByteSource):
    """A source that is a local file or a named pipe."""

    def __init__(self, location: str, name: str) -> None:
        super().__init__(str(Path(location).absolute()), name)

    def check(self) -> None:
        """Check that the file exists and begins with a tar header; named pipes are not checked."""
        super().check()
        path = Path(self.location)
        if path.is_fifo():
            return
        if not path.is_file():
            raise SourceError(f"{path} is not a file: correct the pattern or the list")
        if path.stat().st_size == 0:
            raise SourceError(f"{path} is empty (0 bytes): write it again")
        try:
            with self.stream() as stream:
                tarfile.TarInfo.frombuf(stream.read(_BLOCK_BYTES), "utf-8", "surrogateescape")
        except (BrokenStreamError, tarfile.TarError) as error:
            raise SourceError(f"{path} is not a tar file ({error}): correct the path") from None

    def identity(self) -> str:
        """Return the size of the file in bytes as text, "" if it cannot be determined."""
        with suppress(OSError):
            return str(Path(self.location).stat().st_size)
        return ""

    def stream(self) -> AbstractContextManager[Forward]:
        return _open_stream(lambda: io.FileIO(self.location))


@contextmanager
def _open_stream(open: Callable[[], io.RawIOBase | io.BufferedReader]) -> Iterator[Forward]:
    try:
        file = open()
    except (OSError, SourceError) as error:
        raise BrokenStreamError(f"it cannot be opened ({reason_of(error)})", 0) from None
    with file:
        yield Forward(file)


class Url(ByteSource):
    """A source that is a remote file; see `readers.storage.remote.stream`."""

    def identity(self) -> str:
        """Return the URL without query and fragment, since more is unknown without a request."""
        return re.split(r"[?#]", self.location)[0]

    def stream(self) -> AbstractContextManager[Forward]:
        return _open_stream(self._open)

    def _open(self) -> io.BufferedReader:
        from readers.storage.remote import stream

        return stream(self.location)


class Command(ByteSource):
    """The output of a shell command, in WebDataset's notation: ``pipe:zcat train.tar.gz``.

    If commands are joined by ``|``, the shell reports a failure of only the last one. If another one fails, the tar is
    truncated.
    """

    def check(self) -> None:
        """Do nothing: a command can only be checked by running it."""

    def identity(self) -> str:
        """Return the command, as given."""
        return self.location

    @contextmanager
    def stream(self) -> Iterator[Forward]:
        process, broken = self._start(), None
        output = process.stdout
        assert output is not None
        try:
            try:
                yield Forward(output)  # type: ignore[arg-type]
            except BrokenStreamError as error:
                broken = error
            # The exit code counts only at the end of the output: otherwise the command is killed here.
            if not output.read(1) and (code := process.wait()):
                raise SourceError(
                    f"the command {self.location.removeprefix(_PIPE)!r} failed (exit code {code}) and "
                    "what it wrote is not whole: run it by hand"
                )
        finally:
            _stop(process)
        if broken:
            raise broken

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.location.removeprefix(_PIPE),
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            bufsize=0,
            process_group=0,  # so that _stop can end its child processes too
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout:
        process.stdout.close()
