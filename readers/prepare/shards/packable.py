"""What can be packed, and where to."""

from pathlib import Path

from readers.formats.stream import TarStream
from readers.prepare.errors import PrepareError
from readers.sample import Dataset
from readers.storage.destination import Destination
from readers.storage.paths import is_url

_SUFFIXES = (".tar", ".parquet", ".tfrecord", ".zip", ".tgz", ".gz", ".lmdb", ".h5", ".hdf5")


def check_folder(destination: Destination, format: str) -> None:
    """Refuse the name of a file, behind which somebody expects one shard of that format.

    Raises:
        PrepareError: It is one.
    """
    path = Path(destination.location)
    suffix = path.suffix.lower()
    if suffix in _SUFFIXES and not path.is_dir():
        wanted = suffix[1:] if suffix in (".tar", ".parquet") else format
        folder = destination.location[: -len(suffix)]
        raise PrepareError(
            f"DST is the folder of the shards, got the name of a file, {destination.location}: say gpu-aug pack SRC "
            f"{folder} --format {wanted}"
        )


def check_apart(source: str, destination: Destination) -> None:
    """Refuse a destination within the source.

    Raises:
        PrepareError: It is.
    """
    if is_url(destination.location) or not Path(source).is_dir():
        return
    if Path(destination.location).resolve().is_relative_to(Path(source).resolve()):
        raise PrepareError(
            f"the shards of {source} cannot be written into it ({destination.location}): "
            "give a folder elsewhere"
        )


def check_source(source: str, dataset: Dataset | TarStream, shuffle: int | None) -> None:
    """Refuse what no shard holds.

    Raises:
        PrepareError: The data is of that kind.
    """
    if isinstance(dataset, TarStream) and shuffle is not None:
        raise PrepareError(
            f"{source} can only be read forward, so --shuffle cannot be: pack it in order, and the "
            "loader will shuffle, or pack the result again"
        )
    if obstacle := getattr(dataset, "packing_obstacle", ""):
        raise PrepareError(f"{source} {obstacle}")
