"""What a pack leaves at a destination, for tests of writing and reading."""

from readers.formats.tar.dataset import SCAN
from readers.storage.destination import Destination, create_indexed
from tests.support import tars
from tests.support.remote_data import MakeJpeg

PLANNED = (
    "manifest.json",
    ".gpuaug-plan/plan.json",
    ".gpuaug-plan/entries/0.json",
    ".gpuaug-plan/boundaries.bin",
)


def tar_of(jpeg: MakeJpeg, seeds: range, *, noise: int = 0) -> bytes:
    """A shard of labelled JPEGs, each with a field of further bytes."""
    members = []
    for seed in seeds:
        fields = {"jpg": jpeg(40, 64, seed=seed), "cls": b"%d" % (seed % 10), "bin": bytes(noise)}
        members += [(f"{seed:04d}.{name}", content) for name, content in fields.items()]
    return tars.tar_of(members)


def write_packed(place: Destination, jpeg: MakeJpeg, *, noise: int = 0) -> None:
    """Two shards of eight samples with their indexes, and files with the names of a plan's."""
    for number in range(2):
        data = tar_of(jpeg, range(8 * number, 8 * number + 8), noise=noise)
        with create_indexed(place, f"shard-{number:06d}.tar", SCAN) as file:
            file.write(data)
    for name in PLANNED:
        with place.create(name) as file:
            file.write(b"{}")
