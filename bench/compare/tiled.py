"""A tiled copy of the images of a comparison: the same pixels, with restart markers, in one shard."""

import io
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from bench.compare.images import Images, Repeated
from bench.errors import BenchError
from bench.machine import num_cores
from bench.tiling import Tally, tile
from readers import Dataset, open_dataset


def tiled_copy(images: Images, folder: Path, progress: Callable[[str], None]) -> Dataset:
    """Tile every image and open the copy; what cannot be tiled is copied as it is.

    Args:
        images: What everyone gets.
        folder: Where the shard goes.
        progress: Gets a line of text with the numbers.

    Returns:
        The images over and over, like `images.dataset`.

    Raises:
        BenchError: Not one image can be tiled.
    """
    progress("tiling the images")
    tally = Tally()
    shard = folder / "tiled.tar"
    with tarfile.open(shard, "w") as archive, ThreadPoolExecutor(num_cores()) as pool:
        encoded = (path.read_bytes() for path in images.files)
        for number, (data, reason) in enumerate(pool.map(tile, encoded)):
            tally.count(reason)
            suffix = images.files[number].suffix
            _add(archive, f"{number:08d}{suffix}", bytes(data))
            _add(archive, f"{number:08d}.cls", str(images.labels[number]).encode())
    if not tally.tiled:
        raise BenchError(f"no image can be tiled ({tally.left.most_common(1)}): leave out --tiled")
    progress(f"tiled: {tally.tiled} of {len(images.files)}")
    dataset = open_dataset(shard)
    return Repeated(dataset, np.arange(len(dataset), dtype=np.int64))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
