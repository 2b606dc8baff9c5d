"""The files of an Iceberg table that lies elsewhere than where it was written.

Its metadata holds whole URLs; they are taken from the table's location on. So a table can be copied, and no table
names a file outside of its folder.
"""

import os
from pathlib import Path
from typing import Any, BinaryIO

from readers.formats.parquet.table import inside
from readers.sample import SourceError


class MovedFiles:
    """What pyiceberg calls a FileIO, for reading.

    Args:
        root: Folder of the table.
        location: URL or path where it was written.
    """

    def __init__(self, root: str, location: str) -> None:
        self._root, self._location = root, location.rstrip("/")
        self.properties: dict[str, str] = {}

    def name_of(self, url: str) -> str:
        """Return the name of a file below the folder.

        Raises:
            SourceError: It lies outside.
        """
        if not url.startswith(f"{self._location}/"):
            raise SourceError(
                f"{self._root} names the file {url!r}, which does not lie below its location {self._location}: rewrite "
                "the table in one place"
            )
        return inside(self._root, url.removeprefix(f"{self._location}/"))

    def path_of(self, url: str) -> str:
        """Return the path of a file; see `name_of`."""
        return f"{self._root}/{self.name_of(url)}"

    def new_input(self, location: str) -> "MovedFile":
        """See pyiceberg.io.FileIO."""
        return MovedFile(self.path_of(location), location)

    def new_output(self, location: str) -> Any:
        """Nothing is written."""
        raise PermissionError(location)

    def delete(self, location: Any) -> None:
        """Nothing is deleted."""
        raise PermissionError(location)


class MovedFile:
    """What pyiceberg calls an InputFile."""

    def __init__(self, path: str, location: str) -> None:
        self._path, self.location = path, location

    def __len__(self) -> int:
        return os.path.getsize(self._path)  # noqa: PTH202

    def exists(self) -> bool:
        """Whether it is there."""
        return Path(self._path).is_file()

    def open(self, seekable: bool = True) -> BinaryIO:  # noqa: ARG002
        """Open it."""
        return Path(self._path).open("rb")
