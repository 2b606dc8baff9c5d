"""A tiling in tasks, by whoever carries them out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from platform import node

from readers.prepare.atomic_files import locked
from readers.prepare.errors import PrepareError
from readers.prepare.executor import ArrayTask, Executor, Job
from readers.prepare.jpegs import TileJpeg
from readers.prepare.store_tree import StoreTree, UploadTree
from readers.prepare.tile_copy import UnreadableError, is_shard
from readers.prepare.tile_counts import Tiling
from readers.prepare.tile_files import Done, copy_file
from readers.prepare.tile_notes import find_note, remove_note, write_note
from readers.prepare.tile_plan import PLAN, TilePlan, digest_of, groups_of
from readers.prepare.tile_shards import copy_shard
from readers.prepare.tree import FOLDER, Entry, Tree
from readers.prepare.workers import Threads
from readers.storage.blob import is_url
from readers.storage.destination import Destination
from readers.storage.paths import shown_path

_LEAST_TASK_BYTES = 1 << 28
_CONNECTIONS = 8

AnyTree = Tree | UploadTree | StoreTree


@dataclass(frozen=True)
class TileGroup:
    """One task of a tiling: copies the files of a group. It can be pickled.

    Attributes:
        plan: Says which files these are.
        tile_jpeg: See `readers.prepare.tile`.
        notes: Whether notes say what is finished, else the times of the copies alone.
        num_threads: Files, or JPEGs of a shard, at a time.
    """

    plan: TilePlan
    tile_jpeg: TileJpeg
    notes: bool
    num_threads: int = 1

    def __call__(self, number: int) -> Tiling:
        """Carry out a task, and count what was done; what cannot be read is told with the name of the machine.

        Raises:
            OSError, PrepareError: A copy cannot be written, or there is another plan by now.
        """
        group = self.plan.group(number)
        with Threads(self.num_threads) as threads:
            if self.notes and (noted := find_note(self.plan, group, threads)) and not noted.lost:
                return Tiling(kept=len(group), source_bytes=noted.source_bytes, bytes=noted.bytes)
            done = Tiling()
            outcomes = list(self._copied(group, done, threads))
        for outcome in outcomes:
            done.add(outcome)
        if self.notes:
            write_note(self.plan, group, outcomes, done)
        return done

    def _copied(self, group: list[Entry], done: Tiling, threads: Threads) -> Iterator[Done]:
        copies = [self.plan.copy(entry) for entry in group]
        if is_shard(group[0].source):
            outcome, jpegs = copy_shard(copies[0], threads, self.tile_jpeg)
            done.extend(Tiling(jpegs))
            outcomes = iter([outcome])
        else:
            outcomes = threads.map(partial(copy_file, tile=self.tile_jpeg), copies)
        for outcome in outcomes:
            if outcome.outcome == "lost":
                outcome = outcome._replace(reason=f"{outcome.reason} on {node()}")
            yield outcome


def tile_by(
    executor: Executor,
    tree: AnyTree,
    destination: Destination,
    tile_jpeg: TileJpeg,
    on_progress: Callable[[int, int], None],
    num_threads: int | None = None,
) -> Tiling:
    """Let an executor tile the files of a tree; see `readers.prepare.tile`.

    Args:
        executor: Who carries the tasks out.
        tree: What is copied.
        destination: Where to.
        tile_jpeg: See there.
        on_progress: See there.
        num_threads: Of a task; None leaves it to what is waited for: disks, or the answers of stores.

    Raises:
        OSError, PrepareError: The destination cannot be written, it is being written by another command, or a task
            could not be done.
    """
    task = executor if isinstance(executor, ArrayTask) else None
    is_local = isinstance(tree, Tree)
    with _alone(destination, task):
        if isinstance(tree, Tree):
            tree.make_folders(Path(destination.location))
        plan = find_begun(tree, destination, by_tasks=task is not None)
        if task and plan is None and (there := find_all(tree, destination)) is not None:
            return there  # a task that runs again when all was merged
        if task is None or plan is None:
            plan = TilePlan.make(tree, destination, by_tasks=task is not None)
        done: dict[int, list[str]] = {}
        found = Tiling()
        on_progress(0, plan.num_bytes)
        memory = max(_LEAST_TASK_BYTES, 4 * plan.largest_bytes)
        threads = num_threads or (1 if is_local else _CONNECTIONS)
        notes = not is_local or task is not None
        group = TileGroup(plan, tile_jpeg, notes, threads)
        job = Job(group, range(plan.num_groups), memory, "group of files")
        for number, counted in executor.run(job):
            if counted.lost:
                done[number] = counted.lost
            found.extend(counted)
            on_progress(found.source_bytes, plan.num_bytes)
        found.lost = [text for number in sorted(done) for text in done[number]]
        if task is None:
            plan.remove()
            remove_folder(destination)
    return found


def merge_tiling(tree: AnyTree, destination: Destination) -> Tiling:
    """See that all copies are there, count what the tasks of an array job did, and take the plan away.

    Raises:
        PrepareError: Something is missing, or the source has changed.
    """
    plan, location = find_begun(tree, destination, by_tasks=True), shown_path(destination.location)
    if plan is None:
        if (there := find_all(tree, destination)) is not None:
            return there
        raise PrepareError(
            f"{location} holds no plan of tasks, and not all copies: run them with --task first"
        )
    if digest_of(tree) != plan.digest:
        raise PrepareError(
            f"the source has changed since its tasks began: remove {shown_path(destination.at(FOLDER))} and run all tasks "
            "again, which keep what is there"
        )
    found, missing, first = Tiling(), [], ""
    with Threads(_CONNECTIONS) as threads:
        for number, group in enumerate(groups_of(tree)):
            counted = find_note(plan, group, threads)
            if counted is None:
                first = first or group[0].name.rpartition("/")[2]
                missing.append(number)
            else:
                found.extend(counted)
    if missing:
        raise PrepareError(
            f"{len(missing):,} of {plan.num_groups:,} groups of files are not in {location}, the first is number "
            f"{missing[0]} with {first}: run the tasks again that have not ended well, which make what is missing"
        )
    if not found.lost:  # else the tasks are run again
        _remove(tree, plan)
    return found


def find_all(tree: AnyTree, destination: Destination) -> Tiling | None:
    """Count the copies of a tiling that has ended; None where one is not there, or is of another file than there is now.

    Raises:
        PrepareError: The destination cannot be read.
    """
    found = Tiling()
    # Of this one nothing is written down.
    plan = TilePlan(destination, tree.source, 0, 0, "", 0, 0, by_tasks=False)
    with Threads(_CONNECTIONS) as threads:
        for group in groups_of(tree):
            noted = None if isinstance(tree, Tree) else find_note(plan, group, threads)
            sizes = [] if noted else [_kept(plan, entry) for entry in group]
            if (noted and noted.lost) or None in sizes:
                return None
            found.kept += len(group)
            found.source_bytes += (
                noted.source_bytes if noted else sum(size[0] for size in sizes if size)
            )
            found.bytes += noted.bytes if noted else sum(size[1] for size in sizes if size)
    return found


def _kept(plan: TilePlan, entry: Entry) -> tuple[int, int] | None:
    """Sizes of a file and of its finished copy."""
    try:
        return plan.copy(entry).find_kept()
    except UnreadableError:
        return None


def find_begun(tree: AnyTree, destination: Destination, *, by_tasks: bool) -> TilePlan | None:
    """The plan of a tiling that is under way, or was stopped; None where there is none.

    Args:
        tree: What is copied.
        destination: Where to.
        by_tasks: Whether who asks is a task of an array job, or its merge.

    Raises:
        PrepareError: It is of another source, or of an array job where who asks is none, or the other way around: each
            would take the plan from under the other.
    """
    plan, where = TilePlan.find(tree.source, destination), shown_path(destination.location)
    if plan is None:
        return None
    ended = "run its tasks to their end and merge" if plan.by_tasks else "let that command end"
    other = f"or remove {shown_path(destination.at(PLAN))} if nothing runs any more"
    if plan.source != tree.source:
        raise PrepareError(
            f"{where} is being tiled from {shown_path(plan.source)}, not from {shown_path(tree.source)}: {ended} first, "
            f"give another folder, {other}"
        )
    if plan.by_tasks and not by_tasks:
        raise PrepareError(
            f"{where} is being tiled by an array job, whose tasks need its plan: run the same command with --task and "
            f"--merge as it was begun, {other}"
        )
    if by_tasks and not plan.by_tasks:
        raise PrepareError(
            f"{where} is being tiled by one command and not by tasks: run that command again, which goes on, {other}"
        )
    return plan


@contextmanager
def _alone(destination: Destination, task: ArrayTask | None) -> Iterator[None]:
    """Keep other commands out of a folder, but not the other tasks of an array job, which write other files."""
    folder = Path(destination.location)
    if is_url(destination.location):
        yield
    elif task is None:
        with locked(folder):
            yield
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield


def _remove(tree: AnyTree, plan: TilePlan) -> None:
    """Take the plan away and, where times tell of what is finished as well, the notes."""
    if isinstance(tree, Tree):
        for group in groups_of(tree):
            remove_note(plan, group)
    plan.remove()
    remove_folder(plan.destination)


def remove_folder(destination: Destination) -> None:
    """Take the folder of a plan away where nothing is left in it."""
    if not is_url(destination.location):
        with suppress(OSError):  # where notes stay
            Path(destination.at(FOLDER)).rmdir()
