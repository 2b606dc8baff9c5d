"""Print the output of `gpu-aug cache`: the contents of the cache folder, and removed files."""

import time
from collections.abc import Sequence

from rich.filesize import decimal

from bench.output.text import name_some, print_line, print_table
from dali_pipes.machine.cache_folder import Kind, Removed
from readers.plural import counted
from readers.storage.cache_folder import cache_folder

_MOST_KEPT = 3
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def print_kinds(kinds: Sequence[Kind]) -> None:
    """Print a line for each kind of files, and below it the effect of removing them."""
    folder = cache_folder()
    print_line(f"the cache folder is {folder} (GPU_AUG_CACHE chooses another one)")
    rows = []
    for kind in kinds:
        used = "" if kind.last_used is None else ago(time.time() - kind.last_used)
        elsewhere = "" if folder in (kind.folder, kind.folder.parent) else f" (in {kind.folder})"
        size = decimal(kind.bytes) if kind.files else ""
        rows.append([kind.name, f"{kind.files:,}", size, used, kind.what + elsewhere])
    print_table(("kind", ">files", ">size", ">last used", "what it is"), rows)
    total = decimal(sum(kind.bytes for kind in kinds))
    print_line(f"gpu-aug cache --remove KIND removes a kind, --remove all frees {total}")


def print_removed(removed: Sequence[Removed]) -> None:
    """Print which files were removed and which were kept."""
    for one in removed:
        print_line(f"{one.name}: removed {counted(one.files, 'file')}, {decimal(one.bytes)}")
        if one.kept:
            names = [path.name for path in one.kept[:_MOST_KEPT]]
            some = name_some(names, len(one.kept) - len(names))
            text = f"{one.name}: kept {counted(len(one.kept), 'file')} in use or not ours to remove ({some})"
            print_line(text, "yellow")


def ago(seconds: float) -> str:
    """Return a time span as text, in the largest unit that fits at least once."""
    for length, name in _UNITS:
        if seconds >= length:
            return f"{counted(int(seconds // length), name)} ago"
    return "just now"
