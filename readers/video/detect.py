"""Detect folders of videos, and folders of pictures that are frames of videos."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from readers.describe import few_of
from readers.detect.files import is_video
from readers.detect.listed_folder import ListedFolder
from readers.sample import SourceError, is_image_file
from readers.storage.unreadable import refuse_folder_error

# In lower case only: cameras name photographs IMG_1234.jpg.
_FRAME = re.compile(r"(?:img|frame)[-_]?([0-9]{4,})\.[A-Za-z]+")


def detect_videos(folder: ListedFolder, _split: str | None) -> list[str] | None:
    """Return a list of the folder's path if the first media file in it or below is a video, else None; see `Format.detect`."""
    return [str(folder.path)] if is_video(folder.first_medium) else None


def detect_frames(folder: ListedFolder, _split: str | None) -> list[str] | None:
    """Return a list of the folder's path if it holds ``<class>/<video>/`` folders of frames, else None; see `Format.detect`."""
    is_image = is_image_file(folder.first_medium)
    return [str(folder.path)] if is_image and _holds_frames(folder.path) else None


def frame_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers in the names of those files that are named like frames, in the given order."""
    return [int(found[1]) for name in names if (found := _FRAME.fullmatch(name))]


def _holds_frames(folder: Path) -> bool:
    """Return whether the first folder two levels below a folder holds frames of a video, judged by the names of its files."""
    for path, folders, files in os.walk(folder, onerror=refuse_folder_error):
        names = [name for name in files if name[0] != "." and is_image_file(name)]
        depth = len(Path(path).relative_to(folder).parts)
        if names or depth == 2:
            return depth == 2 and _are_frames(names, path)
        folders[:] = sorted(name for name in folders if name[0] != ".")[:1]
    return False


def _are_frames(names: list[str], folder: str) -> bool:
    """Return whether pictures are named like frames, and numbered from 0 or 1 on without gaps.

    Raises:
        SourceError: The names look like those of frames, but a few numbers are missing.
    """
    numbers = sorted({*frame_numbers(names)})
    if len(numbers) < max(2, len(names)):
        return False
    there, span = {*numbers}, range(min(numbers[0], 1), numbers[-1] + 1)
    if numbers[0] > 2 or 2 * len(numbers) <= len(span):
        return False
    missing = [number for number in span if number not in there]
    if missing:
        raise SourceError(
            f"{folder} holds pictures that are called like frames of a video, but number {few_of(missing)} is missing: "
            "say format='frame-folder' to read videos without it, or format='folder' to read images of classes"
        )
    return True
