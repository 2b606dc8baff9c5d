"""Recognising the folder of a LeRobot dataset."""

from pathlib import Path

from readers.formats.lerobot.meta import version_of
from readers.sample import SourceError


def is_lerobot(folder: Path, split: str | None) -> bool:
    """Whether meta/info.json of a folder names the version of a LeRobot dataset.

    Raises:
        SourceError: It does, and a split is wanted.
    """
    if version_of(folder) is None:
        return False
    if split is not None:
        raise SourceError(
            f"split={split!r} is not known for {folder}, a LeRobot dataset: take some of its episodes "
            "(episodes=range(40))"
        )
    return True
