"""Check that a pack can read its source and write to its destination."""

from pathlib import Path

from readers.formats.stream import TarStream
from readers.prepare.errors import PrepareError
from readers.sample import Dataset
from readers.storage.destination import Destination
from readers.storage.paths import is_url

# Extensions of formats that hold many samples in one file.
_SUFFIXES = (".tar", ".parquet", ".tfrecord", ".zip", ".tgz", ".gz", ".lmdb", ".h5", ".hdf5")


def check_folder(destination: Destination, format: str) -> None:
    """Check that a destination does not look like a file, such as ``train.tar``: it is the folder of the shards.

    Args:
        destination: The destination.
        format: Format of the shards, for the error.

    Raises:
        PrepareError: The destination has the extension of a file format, and is not an existing folder.
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
    """Check that a destination is not within the source.

    Raises:
        PrepareError: The destination is within the folder of the source.
    """
    if is_url(destination.location) or not Path(source).is_dir():
        return
    if Path(destination.location).resolve().is_relative_to(Path(source).resolve()):
        raise PrepareError(
            f"the shards of {source} cannot be written into it ({destination.location}): "
            "give a folder elsewhere"
        )


def stream_plan_error(source: object) -> PrepareError:
    """Return the error for a source that can only be read forward, so that its shards cannot be planned."""
    return PrepareError(
        f"{source} can only be read forward, so its shards cannot be planned: pack it on one machine (gpu-aug pack "
        "without --on, --task and --merge), or decompress it"
    )


def check_source(source: str, dataset: Dataset | TarStream, shuffle: int | None) -> None:
    """Check that a dataset can be packed into shards.

    Args:
        source: Name of the source, for the error.
        dataset: The opened source.
        shuffle: Seed of the order; None keeps the order of the source.

    Raises:
        PrepareError: Shards cannot hold samples of this kind, or a stream is to be shuffled.
    """
    if isinstance(dataset, TarStream) and shuffle is not None:
        raise PrepareError(
            f"{source} can only be read forward, so --shuffle cannot be: pack it in order, and the "
            "loader will shuffle, or pack the result again"
        )
    if obstacle := getattr(dataset, "packing_obstacle", ""):
        raise PrepareError(f"{source} {obstacle}")
