"""Write three samples in every format, for tests/test_identities.py, by `python -m tests.data.identities.write FOLDER`.

What lies beside it was written so, once: the libraries' own bytes change with their versions, and fingerprints of
some formats see them.
"""

import importlib
import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.lerobot import TOP, Robot
from tests.support.videos import pan, write_video
from tests.support.writers import Written

FORMATS = (
    "tar",
    "tfrecord",
    "parquet",
    "arrow",
    "lmdb",
    "hdf5",
    "arrayrecord",
    "npy",
    "manifest",
    "coco",
    "voc",
    "yolo",
    "labelme",
    "dota",
    "mask_folder",
    "imagenet",
    "openimages",
    "lance",
    "delta",
    "iceberg",
    "energon",
)


def photo(seed: int) -> bytes:
    """A JPEG of 8 x 8 pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, "JPEG")
        return file.getvalue()


def write(folder: Path) -> None:
    """Write them all; folders of files are written by hand."""
    samples = [Written(name, photo(seed), seed) for seed, name in enumerate(("a", "b", "c"))]
    for name in FORMATS:
        (folder / name).mkdir()
        importlib.import_module(f"tests.support.writers.{name}").write(folder / name, samples)
    for sample in samples:
        for place in ("folder/{}.jpg", "frame-folder/{}/1.jpg", "frame-folder/{}/2.jpg"):
            path = folder / place.format(f"class-{sample.label}/{sample.name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sample.image)
        path = folder / f"video-folder/class-{sample.label}/{sample.name}.mp4"
        path.parent.mkdir(parents=True)
        write_video(path, pan(8 + 4 * sample.label, (16, 16)), codec="mpeg4")
    Robot((3, 2), sizes={TOP: (16, 16)}, files=((0,), (1,)), codec="mpeg4").write(
        folder / "lerobot"
    )
    root = folder / "video-folder"
    videos = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.mp4"))]
    (folder / "list.txt").write_text(
        "".join(f"folder/class-{s.label}/{s.name}.jpg {s.label}\n" for s in samples)
    )
    (folder / "clip-list.csv").write_text(
        "".join(
            f"video-folder/{name},0.0,{0.1 + number},{number}\n"
            for number, name in enumerate(videos)
        )
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
