"""A destination of copies that holds something else, which copies would be mixed with."""

import os

from readers.prepare.errors import PrepareError
from readers.prepare.tile_plan import has_plan
from readers.prepare.tree import BESIDE, FOLDER, Tree
from readers.storage.destination import Destination
from readers.storage.paths import shown_path


def check_foreign(tree: object, destination: Destination) -> None:
    """Refuse a destination with a file that is no copy of this source.

    Where times tell which copies are finished, files of other names are foreign, unless a tiling is under way. Where a
    store takes part, all files are, unless the folder of notes is there, which stays. Hidden files are left alone.

    Args:
        tree: What is copied.
        destination: Where to.

    Raises:
        PrepareError: It holds something else, or cannot be read.
    """
    names = (
        name
        for name in destination.names()
        if not any(part.startswith(".") for part in name.split("/"))
    )
    if isinstance(tree, Tree):
        names = (name for name in names if not name.lower().endswith(BESIDE) and not tree.has(name))
    other = next(names, None)
    if other is None or has_plan(destination):
        return
    # Looked for after the files, since other tasks write the plan before these.
    if not isinstance(tree, Tree) and next(iter(destination.names(FOLDER)), None) is not None:
        return
    shown = os.fsencode(other).decode("utf-8", "replace")
    raise PrepareError(
        f"{shown_path(destination.location)} holds {shown}, which is no copy of this source: give an empty folder, or one "
        "that the same gpu-aug tile has begun; if it is the copy of a file that the source had earlier, remove it"
    )
