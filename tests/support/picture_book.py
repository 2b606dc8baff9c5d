"""A made-up format that only a row of the registry knows: a folder with ``pages.book``, a label and the name of a picture a line."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers import BadSample, IndexedDataset, Sample
from readers.detect.listed_folder import ListedFolder
from readers.detect.registry import Format, Opened
from readers.sample import ColumnName, PathLike

PAGES = "pages.book"


class PictureBook(IndexedDataset):
    """The pictures of a book, in the order of its pages."""

    def __init__(self, root: PathLike, *, first: int = 0) -> None:
        path = Path(root)
        self._root = path if path.is_dir() else path.parent
        lines = (self._root / PAGES).read_text().splitlines()[first:]
        self._pages = [(name, int(label)) for label, name in (line.split() for line in lines)]

    def __len__(self) -> int:
        return len(self._pages)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the pages."""
        return hashlib.sha256(repr(self._pages).encode()).hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`."""
        values = [label if name == "label" else -1 for _, label in self._pages]
        return np.array(values, np.int64)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """See `IndexedDataset.fetch`."""
        pages = [(index, *self._pages[index]) for index in map(int, indices)]
        return [
            Sample(index, name, {"jpg": (self._root / name).read_bytes()}, label)
            for index, name, label in pages
        ]


def detect(folder: ListedFolder, split: str | None) -> list[str] | None:
    return [str(folder.path)] if PAGES in folder.files and split is None else None


def warn(opened: Opened) -> list[str]:
    return [f"{opened.path} has a page without a picture"] if len(opened.dataset) % 2 else []


ROW = Format(
    "book",
    "picture book",
    f"{__name__}:PictureBook",
    "folder",
    (".book",),
    stage="before splits",
    detect=f"{__name__}:detect",
    warn=f"{__name__}:warn",
)
