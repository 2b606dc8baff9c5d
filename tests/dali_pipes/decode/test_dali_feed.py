"""What DALI is fed with: made by threads, whole, and of the bytes that were read."""

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dali_pipes.decode.dali import feed as feed_module
from dali_pipes.decode.dali import graph
from dali_pipes.decode.dali.driver import Driver, Inputs, Outputs
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.stages.data import Fetched
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.jpeg_kinds import with_restarts
from tests.support.loaders import draw_canvases_in_dali, loader_maker, write_images

pytestmark = pytest.mark.needs_dali

BATCH_SIZE = 6
RECIPE = Recipe([RandomResizedCrop(24, scale=(0.05, 0.4))])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Pictures with restart markers, but for every third one."""
    images = [jpeg(160 + number, 240, seed=number) for number in range(2 * BATCH_SIZE)]
    marked = [with_restarts(data) if n % 3 else data for n, data in enumerate(images)]
    return write_images(tmp_path_factory.mktemp("half marked"), marked)


load = loader_maker(RECIPE, batch_size=BATCH_SIZE, decoder="dali")


def fetch(dataset: Dataset) -> Fetched:
    loader = load(dataset)
    return loader._setup.fetcher.fetch(next(iter(loader.steps.plans(0))))


@pytest.fixture(scope="module")
def feed() -> Feed:
    options: dict[str, Any] = {"device": "cpu", "canvases": False, "device_id": None}
    return Feed(
        FeedOptions(
            batch_size=BATCH_SIZE, antialias=(True,), num_threads=1, depth=1, hw_decoder_load=1.0, **options
        )
    )  # fmt: skip


def pixels(data: Any) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(bytes(data))) as image:
        return np.asarray(image.convert("RGB"))


def test_threads_make_all_that_dali_gets(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the training loop makes nothing of it."""
    makers: list[int] = []
    make = Feed.inputs

    def noted(*arguments: Any) -> Any:
        makers.append(threading.get_ident())
        return make(*arguments)

    monkeypatch.setattr(Feed, "inputs", noted)
    with load(dataset) as loader:
        assert len(list(loader)) == len(makers) == 2

    assert threading.get_ident() not in makers


class Freed(bytes):
    """A file that tells which thread gave its memory back."""

    by: ClassVar[list[int]] = []

    def __del__(self) -> None:
        self.by.append(threading.get_ident())


class Telling:
    """A dataset of such files."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Any:
        if name == "locate":  # its files would be read past `fetch`
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def fetch(self, indices: Any) -> Any:
        """See Dataset."""
        samples: list[Any] = self._dataset.fetch(indices)
        return [replace(one, fields={"jpg": Freed(one.fields["jpg"])}) for one in samples]


def test_threads_give_memory_back(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the training loop does not free the files of a step, where DALI renders the canvases."""
    draw_canvases_in_dali(monkeypatch)
    num_steps = 8
    for number in range(num_steps * BATCH_SIZE):
        (tmp_path / f"{number}.jpg").symlink_to(photos[number % len(photos)])
    with load(Telling(open_dataset(tmp_path))) as loader:
        assert len(list(loader)) == num_steps

    assert len(Freed.by) == num_steps * BATCH_SIZE
    # Those of the last steps are dropped as the loop ends, where the threads have not come to them.
    assert threading.get_ident() not in Freed.by[:BATCH_SIZE]


def test_parts_show_the_crops(dataset: Dataset, feed: Feed) -> None:
    """By Pillow, the part of what DALI gets is the crop of the file; of hidden rows DALI gets the placeholder."""
    fetched, hidden = fetch(dataset), {2}

    given = feed.inputs(fetched, hidden)

    crops = fetched.draws[0].crops
    for row in range(BATCH_SIZE):
        encoded = np.asarray(given["encoded"][row])
        if row in hidden:
            assert np.array_equal(encoded, graph.placeholder())
            continue
        data = fetched.data[row]
        assert data is not None
        (top, left), (height, width) = (given[name].at(row) for name in ("start", "shape"))
        part = pixels(encoded)[top : top + height, left : left + width]
        (top, left), (height, width) = crops.start[row], crops.shape[row]
        assert np.array_equal(part, pixels(data)[top : top + height, left : left + width])
        assert np.array_equal(encoded, np.frombuffer(data, np.uint8))


def test_bytes_stay_in_memory(photos: list[Path]) -> None:
    """What DALI is given keeps the bytes, which it does not copy."""
    data = photos[0].read_bytes()

    given = feed_module._tensor_lists([data], {"start": np.zeros((1, 2), np.int32)})
    address = np.frombuffer(data, np.uint8).ctypes.data
    del data

    assert given["encoded"][0].data_ptr() == address
    for number in range(50):  # would write over memory that was free
        assert len(bytes([number]) * len(photos[0].read_bytes()))
    assert bytes(np.asarray(given["encoded"][0])) == photos[0].read_bytes()


def test_the_warm_up_is_as_large_as_a_batch(
    monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    """NvImageCodec gives the JPEG engine of a GPU no more of any batch than of the first, and its kernels other pixels."""
    sizes: list[list[int]] = []

    def noted(driver: Driver, inputs: Inputs) -> Sequence[Outputs]:
        sizes.append([len(batch) for batch in inputs.values()])
        return warm_up(driver, inputs)

    warm_up = Driver.warm_up
    monkeypatch.setattr(Driver, "warm_up", noted)
    next(iter(load(dataset)))

    assert [set(counts) for counts in sizes] == [{BATCH_SIZE}]
