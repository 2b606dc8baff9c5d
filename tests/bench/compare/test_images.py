"""The images that everybody gets, and photographs without a download."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.compare.images import Repeated, collect
from bench.compare.photographs import make_photographs
from readers import Sample, open_dataset
from tests.support.tars import write_tar

Jpeg = Callable[..., bytes]

pytestmark = pytest.mark.filterwarnings(
    "ignore:The image decoding and encoding capabilities of TorchVision:DeprecationWarning"
)


def test_files_that_would_stop_somebody_are_left_out(tmp_path: Path, jpeg: Jpeg) -> None:
    """A torn file and formats that some library does not read are named, and nobody gets them."""
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 50))
    (tmp_path / "torn.jpg").write_bytes(jpeg(40, 50)[:-300])
    Image.new("RGB", (30, 20)).save(tmp_path / "b.gif")
    Image.new("RGB", (30, 20)).save(tmp_path / "c.bmp")

    images = collect(str(tmp_path), tmp_path)

    assert images.files == [tmp_path / "photo.jpg"]
    reasons = dict(fault.split(": ", 1) for fault in images.left_out)
    assert reasons.pop("torn.jpg")
    assert reasons == {
        "b.gif": "not every pipeline reads its format",
        "c.bmp": "torchvision.io does not read it",
    }
    assert {sample.key for sample in images.dataset.fetch(range(20))} == {"photo.jpg"}


def test_a_folder_of_one_rare_format_is_compared(tmp_path: Path) -> None:
    """What one library does not read is left out only where others remain."""
    Image.new("RGB", (30, 20)).save(tmp_path / "c.bmp")

    images = collect(str(tmp_path), tmp_path)

    assert (images.files, images.left_out) == ([tmp_path / "c.bmp"], [])


def test_images_in_shards_become_files(tmp_path: Path, jpeg: Jpeg) -> None:
    """Baselines read the same bytes and labels as our loader when the data are tar shards."""
    encoded = [jpeg(40, 50, seed=seed) for seed in range(3)]
    members = [
        member
        for number, data in enumerate(encoded)
        for member in ((f"{number}.jpg", data), (f"{number}.cls", str(7 - number).encode()))
    ]
    write_tar(tmp_path / "shard.tar", members)
    copies = tmp_path / "copies"
    copies.mkdir()

    images = collect(str(tmp_path / "shard.tar"), copies)

    assert [path.read_bytes() for path in images.files] == encoded
    assert images.labels == [7, 6, 5]


def test_repeated_samples_keep_their_own_indices(tmp_path: Path, jpeg: Jpeg) -> None:
    """A sample's second appearance has its bytes and another index, so that its draw differs."""
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(40, 50, seed=number))
    repeated = Repeated(open_dataset(tmp_path), np.array([0, 2]))

    first, second = repeated.fetch([1, 3])

    assert isinstance(first, Sample)
    assert isinstance(second, Sample)
    assert (first.key, first.index, second.key, second.index) == ("2.jpg", 1, "2.jpg", 3)
    assert first.image == second.image


def test_photographs_are_the_same_each_time(tmp_path: Path) -> None:
    """The same seed gives the same files, in class folders; another seed gives others."""
    pytest.importorskip("skimage")
    folders = [tmp_path / name for name in ("one", "two", "other")]

    numbers = [
        make_photographs(folder, per_class=2, seed=seed)
        for folder, seed in zip(folders, (0, 0, 1), strict=True)
    ]

    cats = [(folder / "cat" / "cat-00.jpg").read_bytes() for folder in folders]
    assert cats[0] == cats[1] != cats[2]
    assert numbers[0] == len(open_dataset(folders[0])) == 2 * len(list(folders[0].iterdir()))
