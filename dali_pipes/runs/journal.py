"""Files that get a line at a time while a run goes on: the audit and the ledger."""

import os
from collections.abc import Sequence
from pathlib import Path

from dali_pipes.errors import LoaderError

RANK = "{rank}"


class Journal:
    """Appends lines of text to a file, which is open only while it is written.

    Lines are written whole or, if the process is killed or the disk is full, not to their end; what comes later
    begins a line of its own.

    Args:
        argument: Which of the loader's arguments names the file, for errors.
        path: The file; RANK in it stands for the rank.
        rank: As far as it is known, whose file gets a folder now; files of other ranks get theirs with their first line.

    Raises:
        LoaderError: The folder cannot be made.
    """

    def __init__(self, argument: str, path: str | os.PathLike[str], rank: int) -> None:
        self._argument = argument
        self.name = os.fspath(path)
        self._begun: set[Path] = set()
        file = self.path(rank).absolute()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LoaderError(
                f"{argument}={self.name!r} cannot be written: the folder {file.parent} cannot be made "
                f"({error.strerror or error}); choose another place"
            ) from error
        if file.is_dir():
            raise LoaderError(
                f"{argument}={self.name!r} cannot be written: it is a folder; name a file in it"
            )

    def path(self, rank: int) -> Path:
        """The file of a rank."""
        return Path(self.name.replace(RANK, str(rank)))

    def append(self, lines: Sequence[str], rank: int) -> None:
        """Write lines, each without its end.

        Raises:
            LoaderError: The file cannot be written, for one because the disk is full.
        """
        path = self.path(rank)
        try:
            if path not in self._begun:
                path.parent.mkdir(parents=True, exist_ok=True)
            torn = path not in self._begun and not _ends_whole(path)
            data = ("\n" * torn + "".join(f"{line}\n" for line in lines)).encode()
            self._begun.discard(path)  # until all is written
            # One write where there is room: a process that is killed leaves whole lines.
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            finally:
                os.close(descriptor)
            self._begun.add(path)
        except OSError as error:
            raise LoaderError(
                f"{self._argument}={self.name!r}: {path} cannot be written ({error.strerror or error}), so the loop "
                f"stops before the batch is handed over; make room or choose another place, and go on from the "
                f"loader's state"
            ) from error


def _ends_whole(path: Path) -> bool:
    """Whether a file is empty or not there, cannot be read back, or ends with a whole line."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
