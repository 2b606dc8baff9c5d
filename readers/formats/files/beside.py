"""Files that a description names: read below one folder and nowhere else."""

import os
from collections.abc import Iterable
from pathlib import Path

from readers.formats.files.dataset import map_whole, read_whole, size_bytes
from readers.sample import Payload


class FilesBelow:
    """The files below one folder, by their relative names. Links in it are followed.

    Args:
        root: The folder.
        what: It, for errors: "the folder of the manifest".
    """

    def __init__(self, root: Path, what: str) -> None:
        self._prefix, self._what = f"{str(root).rstrip('/')}/", what

    def name(self, written: str) -> str:
        """Return a name as it is below the folder; an absolute one must lie there.

        Raises:
            ValueError: It leaves the folder, or can be no file's.
        """
        name = os.path.normpath(written)
        if name.startswith(self._prefix):
            name = name[len(self._prefix) :]
        if name == ".." or name.startswith(("/", "../")):
            raise ValueError(f"{_last_part(written)} lies outside {self._what}")
        if name == "." or "\0" in name:
            raise ValueError(f"{written!r} names no file")
        return name

    def read(self, written: str, *, mapped: bool = False) -> Payload:
        """Read a whole file, or map it, unread.

        Raises:
            ValueError: Its name leaves the folder, or it cannot be read; the text is a short reason.
        """
        name = self.name(written)
        try:
            return (map_whole if mapped else read_whole)(self._prefix + name)
        except OSError as error:
            raise ValueError(f"the file {name} cannot be read: {error.strerror}") from None

    def sizes(self, names: Iterable[str]) -> list[int]:
        """Sizes of files in bytes, -1 where there is none; see `size_bytes`."""
        found = []
        for name in names:
            try:
                found.append(size_bytes(self._prefix + self.name(name)))
            except ValueError:
                found.append(-1)
        return found


def _last_part(written: str) -> str:
    """Absolute paths are this machine's own."""
    return f".../{written.rpartition('/')[2]}" if written.startswith("/") else written
