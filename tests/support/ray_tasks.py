"""Work for the nodes of a cluster in tests; as a program, a driver that packs with them."""

import os
import signal
import sys
import time
from pathlib import Path

from dali_pipes.jpeg.seek_points import JpegFinder
from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.sample import Payload
from readers.storage.index.index_file import PREFIX, STAMP

_FROM = {".gpuaug-index": PREFIX.size + STAMP.size}  # where the inode and the times are behind us
_BEFORE = 6
"""JPEGs that a process looks through before it waits: then it is in the middle of a shard."""
_COMMENT = b"\xff\xfe\xff\xff" + bytes(0xFFFD)
"""The longest comment that a JPEG can hold. Two of them make a photograph of any size larger than 100 kB, a fifth of what
`make_shard` reads at a time, so that the first samples of a shard are written before `_BEFORE` of them are read."""


def lay_out(photos: list[Path], folder: Path, copies: int = 1) -> str:
    """Put photographs of more than 100 kB into a folder of two classes, several times under other names; return the folder."""
    for number, photo in enumerate(photos * copies):
        path = folder / f"class{number % 2}" / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = photo.read_bytes()
        path.write_bytes(data[:2] + 2 * _COMMENT + data[2:])
    return str(folder)


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder but those that somebody was writing; of an index what does not change with the disk."""
    return {
        str(path.relative_to(folder)): path.read_bytes()[_FROM.get(path.suffix, 0) :]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".part"
    }


class Waiting(JpegFinder):
    """Finds checkpoints of JPEGs, and waits in the middle of a shard until a file is there.

    Args:
        marks: A folder: a process that waits puts a file with its number there, and goes on when ``go`` is there.
        node: Of the cluster, the only one that waits; all of them when None.
    """

    _marks: Path
    _node: str | None
    _done: list[int]

    def __init__(self, marks: Path, node: str | None = None) -> None:
        super().__init__()
        self.__dict__ |= {"_marks": marks, "_node": node, "_done": []}  # it is frozen

    def find(self, image: Payload) -> PackedSeekPoints:
        """Look through a JPEG."""
        self._done.append(len(image))
        if len(self._done) == _BEFORE and self._is_here():
            (self._marks / str(os.getpid())).touch()
            while not (self._marks / "go").exists():
                time.sleep(0.05)
        return super().find(image)

    def _is_here(self) -> bool:
        import ray

        return self._node in (None, ray.get_runtime_context().get_node_id())


def die(how: str, folder: Path, number: int) -> int:
    """End the process the first time that the task is carried out."""
    try:
        (folder / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return number
    if how == "exit":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does that is out of memory
    return -1


class Other:
    """Another job's actor, which keeps its core."""

    def here(self) -> bool:
        """Whether it runs."""
        return True


def fail_on(node: str, number: int) -> int:
    """Fail on one node, where the source cannot be read."""
    import ray

    from readers.sample import SourceError

    if ray.get_runtime_context().get_node_id() == node:
        raise SourceError("photos/a.jpg cannot be read (Permission denied): make it readable")
    return number


def pack_waiting(address: str, source: str, destination: str, shard_size: str, marks: str) -> None:
    """Pack on a cluster whose tasks wait in the middle."""
    from dali_pipes.integrations.ray.executor import RayExecutor
    from readers.prepare import pack

    pack(
        source,
        destination,
        shard_size=shard_size,
        finder=Waiting(Path(marks)),
        executor=RayExecutor(address),
    )


if __name__ == "__main__":
    import tests.support.ray_cluster  # noqa: F401, for its settings

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process may ignore it
    pack_waiting(*sys.argv[1:])
