"""A copy of images in which every JPEG has restart markers; all other files are copied unchanged."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from readers.prepare.atomic_files import locked
from readers.prepare.errors import PrepareError
from readers.prepare.executor import Executor, LocalExecutor
from readers.prepare.jpegs import TileJpeg
from readers.prepare.store_tree import StoreTree, UploadTree
from readers.prepare.tile_copy import LocalCopy, is_shard
from readers.prepare.tile_counts import Tiling
from readers.prepare.tile_files import copy_file
from readers.prepare.tile_foreign import check_foreign
from readers.prepare.tile_plan import TilePlan
from readers.prepare.tile_shards import copy_shard
from readers.prepare.tile_tasks import find_begun, merge_tiling, remove_folder, tile_by
from readers.prepare.tree import Tree
from readers.prepare.workers import Threads, checked_workers
from readers.storage.blob import is_url
from readers.storage.destination import Destination, open_destination, whole
from readers.storage.paths import shown_path


def tile(
    source: str,
    destination: str | Path,
    tile_jpeg: TileJpeg,
    *,
    num_workers: int | None = None,
    executor: Executor | None = None,
    merge: bool = False,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Tiling:
    """Copy a folder or shards with restart markers in every JPEG, so that crops decode faster.

    No pixel changes. A second run goes on with what the first one finished.

    Args:
        source: A folder, a .tar shard or a pattern of shards; or the URL of these in an object store: a prefix,
            ``s3://bucket/train-{000..099}.tar``, ``s3://bucket/*.tar``.
        destination: The folder of the copy, or a URL; it may hold a part of it.
        tile_jpeg: Puts restart markers into one JPEG; called from several threads.
        num_workers: Threads; all cores when None.
        executor: Who makes the copies; threads of this process when None. The copies are the same. All machines see
            source and destination under these names. The result of an `ArrayTask` tells of its own files.
        merge: Copy nothing; see that all tasks of an array job have made their copies, and count these.
        on_progress: Called with the bytes that are done and the bytes in all.

    Raises:
        PrepareError: There is nothing to read; the destination cannot be written, holds the source or something else, or
            another tiling is under way there; or something is missing.

    Example:
        >>> from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
        >>> from readers.prepare import tile
        >>> tile("photos/", "tiled/", tile_jpeg).jpegs.tiled
        36
    """
    workers = checked_workers(num_workers)
    places = source, os.fspath(destination)
    folder = open_destination(destination if is_url(places[1]) else Path(destination).absolute())
    tree: Tree | UploadTree | StoreTree
    if is_url(source):
        tree = StoreTree(source, folder)
    elif is_url(places[1]):
        tree = UploadTree(source)
    else:
        tree = Tree(source, Path(destination))
    try:
        if merge:
            return merge_tiling(tree, folder)
        check_foreign(tree, folder)
        if executor is not None:
            return tile_by(executor, tree, folder, tile_jpeg, on_progress)
        if not isinstance(tree, Tree):
            here = LocalExecutor(1)
            return tile_by(here, tree, folder, tile_jpeg, on_progress, num_threads=workers)
        return _tile_here(tree, folder, tile_jpeg, workers, on_progress)
    except OSError as error:
        raise PrepareError(
            f"{shown_path(places[1])} cannot be written ({error.strerror}): {whole(folder.location)}mend it and run the "
            "same command again"
        ) from None


def _tile_here(
    tree: Tree,
    destination: Destination,
    tile_jpeg: TileJpeg,
    workers: int,
    on_progress: Callable[[int, int], None],
) -> Tiling:
    found, folder = Tiling(), Path(destination.location)
    with locked(folder), Threads(workers) as threads:
        find_begun(tree, destination, by_tasks=False)
        # As long as it is there, no reader opens the copies.
        plan = TilePlan.make(tree, destination)
        on_progress(0, plan.num_bytes)
        _copy_tree(
            tree, folder, threads, tile_jpeg, found, lambda done: on_progress(done, plan.num_bytes)
        )
        plan.remove()
        remove_folder(destination)
    return found


def _copy_tree(
    tree: Tree,
    destination: Path,
    threads: Threads,
    tile_jpeg: TileJpeg,
    found: Tiling,
    on_bytes: Callable[[int], None],
) -> None:
    tree.make_folders(destination)
    copies = (LocalCopy(path, destination / name) for path, name in tree.files())
    files = (copy for copy in copies if not is_shard(copy.source.name))
    for done in threads.map(partial(copy_file, tile=tile_jpeg), files):
        found.add(done)
        on_bytes(found.source_bytes)
    for path, name in tree.files():
        if is_shard(name):
            _copy_shard(LocalCopy(path, destination / name), threads, tile_jpeg, found, on_bytes)


def _copy_shard(
    copy: LocalCopy,
    threads: Threads,
    tile_jpeg: TileJpeg,
    found: Tiling,
    on_bytes: Callable[[int], None],
) -> None:
    done, jpegs = copy_shard(
        copy, threads, tile_jpeg, lambda num_bytes: on_bytes(found.source_bytes + num_bytes)
    )
    found.extend(Tiling(jpegs))
    found.add(done)
    on_bytes(found.source_bytes)
