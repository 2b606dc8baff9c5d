"""A folder with the names of its files and subfolders, which is passed to the hooks of formats."""

import os
from functools import cached_property
from pathlib import Path

from readers.detect.files import NO_VIDEO, is_video
from readers.sample import is_image_file
from readers.storage.unreadable import listed, refuse_folder_error


class ListedFolder:
    """A folder and the names in it, without those that begin with a dot.

    Attributes:
        path: Path of the folder.
        folders: Names of its subfolders, sorted.
        files: Names of its files, sorted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        folders, files = listed(path)
        self.folders = sorted(name for name in folders if name[0] != ".")
        self.files = sorted(name for name in files if name[0] != ".")

    @cached_property
    def first_medium(self) -> str:
        """Name of the first image or video in the folder or below it; else of the first .ts file; "" if there is none."""
        other = ""
        for _, folders, files in os.walk(self.path, onerror=refuse_folder_error):
            folders.sort()
            for name in sorted(name for name in files if name[0] != "."):
                if is_video(name) or is_image_file(name):
                    return name
                if name.lower().endswith(NO_VIDEO):
                    other = other or name
        return other
