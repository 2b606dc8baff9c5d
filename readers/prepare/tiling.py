"""A copy of images in which every JPEG has restart markers; all other files are copied unchanged."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from readers.formats.tar.dataset import TarDataset
from readers.prepare.atomic_files import atomic_file, locked
from readers.prepare.errors import PrepareError
from readers.prepare.jpegs import JpegCounts, TileJpeg
from readers.prepare.tile_files import (
    Done,
    UnreadableError,
    copy_file,
    copy_unchanged,
    find_kept,
    open_source,
)
from readers.prepare.tile_shards import DamagedShardError, tile_shard
from readers.prepare.tree import Copy, Tree
from readers.prepare.workers import Threads, checked_workers
from readers.sample import ReadersError


@dataclass
class Tiling:
    """The result of `tile`.

    Attributes:
        jpegs: How many JPEGs were tiled, those in shards included.
        source_bytes: Size of all files.
        bytes: Size of their copies.
        copied: Number of files that are no JPEGs, and of shards.
        kept: Number of files that an earlier run has finished.
        lost: Files that could not be read and are missing in the copy, with the reason.
    """

    jpegs: JpegCounts = field(default_factory=JpegCounts)
    source_bytes: int = 0
    bytes: int = 0
    copied: int = 0
    kept: int = 0
    lost: list[str] = field(default_factory=list)

    def add(self, done: Done) -> None:
        """Count a file in."""
        self.source_bytes += done.before_bytes
        self.bytes += done.after_bytes
        if done.outcome == "jpeg":
            self.jpegs.count(done.reason)
        elif done.outcome == "copied":
            self.copied += 1
        elif done.outcome == "kept":
            self.kept += 1
        else:
            self.lost.append(f"{done.source}: {done.reason}")


def tile(
    source: str,
    destination: str | Path,
    tile_jpeg: TileJpeg,
    *,
    num_workers: int | None = None,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Tiling:
    """Copy a folder or shards with restart markers in every JPEG, so that crops decode faster.

    No pixel changes. A second run goes on with what the first one finished.

    Args:
        source: A folder, a .tar shard or a pattern of shards.
        destination: The folder of the copy; it may hold a part of it.
        tile_jpeg: Puts restart markers into one JPEG; called from several threads.
        num_workers: Threads; all cores when None.
        on_progress: Called with the bytes that are done and the bytes in all.

    Raises:
        PrepareError: There is nothing to read, or the destination cannot be written or holds the source.

    Example:
        >>> from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
        >>> from readers.prepare import tile
        >>> tile("photos/", "tiled/", tile_jpeg).jpegs.tiled
        36
    """
    workers = checked_workers(num_workers)
    tree, found, destination = Tree(source, Path(destination)), Tiling(), Path(destination)
    with locked(destination), Threads(workers) as threads:
        total = sum(_size_bytes(copy.source) for copy in tree.files())
        on_progress(0, total)
        try:
            _copy_tree(tree, threads, tile_jpeg, found, lambda done: on_progress(done, total))
        except OSError as error:
            raise PrepareError(
                f"{destination} cannot be written ({error.strerror}): what is there is whole, "
                "so mend it and run the same command again"
            ) from None
    return found


def _copy_tree(
    tree: Tree,
    threads: Threads,
    tile_jpeg: TileJpeg,
    found: Tiling,
    on_bytes: Callable[[int], None],
) -> None:
    tree.make_folders()
    files = (copy for copy in tree.files() if not copy.is_shard)
    for done in threads.map(partial(copy_file, tile=tile_jpeg), files):
        found.add(done)
        on_bytes(found.source_bytes)
    for copy in tree.files():
        if copy.is_shard:
            _copy_shard(copy, threads, tile_jpeg, found, on_bytes)
            on_bytes(found.source_bytes)


def _copy_shard(
    copy: Copy,
    threads: Threads,
    tile_jpeg: TileJpeg,
    found: Tiling,
    on_bytes: Callable[[int], None],
) -> None:
    """Tile a shard; one that cannot be parsed is copied unchanged."""
    counts = JpegCounts()

    def on_member(reason: str | None, done_bytes: int) -> None:
        if reason is not None:
            counts.count(reason)
        on_bytes(found.source_bytes + done_bytes)

    try:
        done = find_kept(copy)
        if done is None:
            status = copy.source.stat()
            with (
                open_source(copy.source) as file,
                atomic_file(copy.target, like=status, to_disk=True) as target,
            ):
                tile_shard(file, target, threads, tile_jpeg, on_member)
            done = Done(copy.source, "copied", "", status.st_size, copy.target.stat().st_size)
    except DamagedShardError as error:
        done = copy_unchanged(copy)
        counts = JpegCounts(left=Counter([f"a shard that {error}, copied whole"]))
    except UnreadableError as error:
        done = Done(copy.source, "lost", str(error))
    found.jpegs.tiled += counts.tiled
    found.jpegs.left += counts.left
    found.add(done)
    with suppress(ReadersError):  # a shard without samples has no index
        TarDataset([copy.target])


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
