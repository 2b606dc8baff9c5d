"""The made tables with versions that examples of the documentation open by name."""

from collections.abc import Callable
from pathlib import Path


def write_tables(folder: Path, jpeg: Callable[[int], bytes]) -> None:
    """Write photos.lance and photos-delta/: ten rows in two versions of each."""
    import deltalake
    import lance
    import pyarrow as pa

    for begin in (0, 5):
        numbers = range(begin, begin + 5)
        images = pa.array([jpeg(number) for number in numbers], pa.large_binary())
        rows = pa.table({"image": images, "label": [number % 2 for number in numbers]})
        mode = "append" if begin else "create"
        lance.write_dataset(rows, str(folder / "photos.lance"), mode=mode)
        deltalake.write_deltalake(str(folder / "photos-delta"), rows, mode="append")
