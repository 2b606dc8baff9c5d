"""A copy of images in which every JPEG has restart markers; everything else stays as it was."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from bench.crew import Crew, checked_workers
from bench.errors import BenchError
from bench.progress import bytes_bar
from bench.tile_file import Done, UnreadableError, copy_file, copy_unchanged, find_kept, open_source
from bench.tile_shard import DamagedShardError, tile_shard
from bench.tiling import Tally, printable, show_sizes
from bench.tree import Copy, Tree
from bench.whole import held, whole_file
from readers import ReadersError, TarDataset
from readers.plural import counted

_NUM_LOST_SHOWN = 5


@dataclass
class _Account(Tally):
    """What became of all files.

    Attributes:
        copied: Files that are no JPEGs, and shards.
        kept: Files that an earlier run has finished.
        lost: Files that could not be read, with the reason.
    """

    copied: int = 0
    kept: int = 0
    lost: list[str] = field(default_factory=list)

    def add(self, done: Done) -> None:
        self.before_bytes += done.before_bytes
        self.after_bytes += done.after_bytes
        if done.outcome == "jpeg":
            self.count(done.reason)
        elif done.outcome == "copied":
            self.copied += 1
        elif done.outcome == "kept":
            self.kept += 1
        else:
            self.lost.append(f"{done.source}: {done.reason}")


def tile_and_show(source: str, destination: Path, *, num_workers: int | None) -> None:
    """Write the copy, show how far it is, and sum up.

    Raises:
        BenchError: There is nothing to read, the destination cannot be written or holds the source,
            or files could not be read, which are then missing in the copy.
    """
    workers = checked_workers(num_workers)
    tree, console, account = Tree(source, destination), Console(), _Account()
    with held(destination), Crew(workers) as crew, bytes_bar(console) as bar:
        task = bar.add_task("", total=sum(_size_bytes(copy.source) for copy in tree.files()))
        try:
            _copy_tree(tree, crew, account, lambda size_bytes: bar.advance(task, size_bytes))
        except OSError as error:
            raise BenchError(
                f"{destination} cannot be written ({error.strerror}): what is there is whole, "
                "so mend it and run the same command again"
            ) from None
    _summarise(account, console)


def _copy_tree(tree: Tree, crew: Crew, account: _Account, advance: Callable[[int], None]) -> None:
    tree.make_folders()
    for done in crew.map(copy_file, (copy for copy in tree.files() if not copy.is_shard)):
        account.add(done)
        advance(done.before_bytes)
    for copy in tree.files():
        if copy.is_shard:
            account.add(_copy_shard(copy, crew, account, advance))


def _copy_shard(copy: Copy, crew: Crew, account: Tally, advance: Callable[[int], None]) -> Done:
    """Tile a shard; one that cannot be taken apart is copied as it is."""
    tally, position = Tally(), 0

    def on_member(reason: str | None, done_bytes: int) -> None:
        nonlocal position
        if reason is not None:
            tally.count(reason)
        advance(done_bytes - position)
        position = done_bytes

    try:
        done = find_kept(copy)
        if done is None:
            status = copy.source.stat()
            with (
                open_source(copy.source) as file,
                whole_file(copy.target, like=status, to_disk=True) as target,
            ):
                tile_shard(file, target, crew, on_member)
            done = Done(copy.source, "copied", "", status.st_size, copy.target.stat().st_size)
    except DamagedShardError as error:
        done = copy_unchanged(copy)
        tally = Tally(left=Counter([f"a shard that {error}, copied whole"]))
    except UnreadableError as error:
        done = Done(copy.source, "lost", str(error))
    account.tiled += tally.tiled
    account.left += tally.left
    advance(done.before_bytes - position)
    with suppress(ReadersError):  # a shard without samples has no index
        TarDataset([copy.target])
    return done


def _summarise(account: _Account, console: Console) -> None:
    account.show(console)
    others = f"other files and shards copied: {account.copied}"
    if account.kept:
        others += f"; finished before: {account.kept}"
    console.print(others, highlight=False)
    show_sizes(account.before_bytes, account.after_bytes, console)
    if not account.lost:
        return
    for text in account.lost[:_NUM_LOST_SHOWN]:
        console.print(Text(f"missing: {printable(text)}", style="red"), soft_wrap=True)
    raise BenchError(
        f"{counted(len(account.lost), 'file')} could not be read, missing in the copy: "
        "make everything readable and run the same command again"
    )


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
