"""Count the files that the listing of a folder of images or videos leaves out."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from readers.image.kinds import HEAD_BYTES, kind_of
from readers.storage.whole_files import read_head

# Endings of pictures and videos: the first bytes of some of these formats identify nothing. Other files are opened.
_MEDIA = (
    *(".jfif", ".jpe", ".jp2", ".j2c", ".j2k", ".jpc", ".jpf", ".jpx", ".jxl", ".jxr", ".tga", ".ico", ".pcx"),
    *(".avif", ".avifs", ".heic", ".heics", ".heif", ".hif"),
    *(".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".raf", ".rw2", ".raw", ".psd", ".dcm", ".dicom", ".exr", ".hdr"),
    *(".svg", ".pdf", ".eps", ".pnm", ".pbm", ".pfm", ".mpo", ".mp4", ".mkv", ".mov", ".avi", ".webm", ".wmv", ".mpg"),
    *(".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff"),
)  # fmt: skip
# Files of text or numbers that lie beside images; their first bytes may look like those of a picture.
_NO_MEDIA = (
    *(".txt", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml", ".md", ".html", ".htm", ".py", ".log", ".lst"),
    *(".ini", ".npy", ".npz", ".mat", ".pt", ".db", ".parquet", ".tar", ".gz", ".zip"),
)  # fmt: skip
# Files that are opened for each ending; more than one, as README has no ending, and neither have the images of some crawlers.
_LOOKED_AT = 4
_NAMED = 4  # endings in a warning
# Kinds whose signatures are reliable. BMP and PPM begin with two letters, as texts may; arrays are seldom images.
_SURE = frozenset({"jpeg", "png", "gif", "webp", "tiff", "avif", "heic", "jxl", "jp2"})


class LeftOut:
    """Counts the files in a folder that a dataset does not read, by ending, and makes a warning of them.

    Args:
        root: The folder of the dataset.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, inside: str, names: Iterable[str]) -> None:
        """Count files.

        Args:
            inside: Folder of the files, relative to the root.
            names: Names of the files.
        """
        for name in names:
            ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 - three times as fast
            self._numbers[ending] += 1
            first = self._first.setdefault(ending, [])
            if len(first) < _LOOKED_AT:
                first.append(os.path.join(inside, name))  # noqa: PTH118 - as above

    def remarks(self, num_read: int, what: str = "images") -> tuple[str, ...]:
        """Return a warning if pictures or videos are among the counted files, else an empty tuple.

        Args:
            num_read: Number of files that the dataset reads.
            what: Kind of the files that the dataset reads, in plural.
        """
        media = {
            ending: number
            for ending, number in self._numbers.most_common()
            if ending in _MEDIA
            or (ending not in _NO_MEDIA and any(map(self._is_medium, self._first[ending])))
        }
        if not media:
            return ()
        named = [f"{media[ending]} of {ending or 'no ending'}" for ending in [*media][:_NAMED]]
        others = len(media) - len(named)
        if others:
            named.append(f"and files of {others} other {'kind' if others == 1 else 'kinds'}")
        total = sum(media.values())
        return (
            f"{self._root} holds files that are left out by their endings ({', '.join(named)}): {total} of {total + num_read} "
            f"files are not read as {what}; give those of a format that is read its ending, and convert others (pictures to "
            "JPEG, PNG or WebP)",
        )

    def _is_medium(self, name: str) -> bool:
        kind = kind_of(read_head(self._root / name, HEAD_BYTES))
        return kind is not None and (kind.family in ("picture", "video") or kind.name in _SURE)
