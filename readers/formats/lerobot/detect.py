"""Recognising the folder of a LeRobot dataset."""

from pathlib import Path

from readers.formats.lerobot.meta import version_of


def is_lerobot(folder: Path) -> bool:
    """Whether meta/info.json of a folder names the version of a LeRobot dataset."""
    return version_of(folder) is not None
