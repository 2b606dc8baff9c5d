"""Append lines to the files that a run writes: the audit and the ledger."""

import os
from collections.abc import Sequence
from pathlib import Path

from dali_pipes.errors import LoaderError

RANK = "{rank}"
"""Placeholder for the rank in a file name."""


class Journal:
    """Appends lines of text to a file, which is only open during a write.

    If the process is killed or the disk is full, the last line can be incomplete; further lines start on a new line.

    Args:
        argument: Name of the loader's argument for the file, for error messages.
        path: The file; RANK in it stands for the rank.
        rank: Rank of this process; 0 if it is not known yet. This rank's folder is created at once, the folders of
            other ranks with their first line.

    Raises:
        LoaderError: The folder cannot be created.
    """

    def __init__(self, argument: str, path: str | os.PathLike[str], rank: int) -> None:
        self._argument = argument
        self.name = os.fspath(path)
        self._begun: set[Path] = set()  # files whose last line is complete
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
        """Return the file of a rank."""
        return Path(self.name.replace(RANK, str(rank)))

    def append(self, lines: Sequence[str], rank: int) -> None:
        """Append lines, which are given without line ends.

        Raises:
            LoaderError: The file cannot be written, for example because the disk is full.
        """
        path = self.path(rank)
        try:
            if path not in self._begun:
                path.parent.mkdir(parents=True, exist_ok=True)
            is_torn = path not in self._begun and not _ends_with_complete_line(path)
            data = ("\n" * is_torn + "".join(f"{line}\n" for line in lines)).encode()
            self._begun.discard(path)  # until everything is written
            # A single write if there is room, so that a killed process leaves complete lines.
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


def _ends_with_complete_line(path: Path) -> bool:
    """Return whether a file ends with a complete line, is empty, or is not a regular file (a pipe cannot be read back)."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        return file.read(1) in (b"\n", b"")
