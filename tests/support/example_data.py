"""The made data that examples of the documentation and of docstrings open by name."""

import io
import tarfile
from pathlib import Path

from tests.support.jpegs import encode, picture
from tests.support.videos import pan, write_video

CLASSES = ("cat", "dog")


def make_example_data(folder: Path) -> None:
    """Write photos/, val/, more/, damaged/, videos/, train-{000000..000003}.tar and data.parquet into a folder."""
    for name, count in (("photos", 18), ("val", 5), ("more", 6), ("damaged", 2)):
        for label, class_name in enumerate(CLASSES):
            (folder / name / class_name).mkdir(parents=True)
            for number in range(count):
                path = folder / name / class_name / f"{number:03d}.jpg"
                path.write_bytes(_jpeg(100 * label + number))
    broken = folder / "damaged" / "cat" / "001.jpg"
    broken.write_bytes(broken.read_bytes()[:1000])
    for shard in range(4):
        _write_tar(folder / f"train-{shard:06d}.tar", shard)
    for label, class_name in enumerate(CLASSES):
        (folder / "videos" / class_name).mkdir(parents=True)
        for number in range(2):
            frames = pan(30, (80, 96), seed=2 * label + number)
            write_video(folder / "videos" / class_name / f"{number}.mp4", frames)
    _write_parquet(folder / "data.parquet")


def _jpeg(seed: int) -> bytes:
    return encode(picture(96, 120, seed), "4:2:0")


def _write_tar(path: Path, shard: int) -> None:
    with tarfile.open(path, "w") as archive:
        for number in range(10):
            fields = {"jpg": _jpeg(10 * shard + number), "cls": str(number % 2).encode()}
            for ending, content in fields.items():
                member = tarfile.TarInfo(f"{shard}{number:03d}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def _write_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = range(10)
    columns = {"photo": [_jpeg(number) for number in numbers], "class": [n % 2 for n in numbers]}
    pq.write_table(pa.table(columns), path)
