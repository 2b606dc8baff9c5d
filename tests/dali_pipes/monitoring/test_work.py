"""What a thread works on, in words."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dali_pipes.integrations.torch_dataset import from_torch
from dali_pipes.monitoring.work import Rows
from dali_pipes.steps.schedule import Plan
from readers import open_dataset
from tests.support.small import SmallDataset

ROWS = np.arange(5)
PLAN = Plan(0, 7, ROWS, ROWS, np.ones(5, bool), 5)


def test_names_at_hand() -> None:
    """Three of them are named; lost rows have no name."""
    names = [f"{number}.jpg" for number in range(4)]
    assert str(Rows(PLAN, [*names, ""])) == "step 7: 0.jpg, 1.jpg, 2.jpg and 1 more"


def test_names_that_a_dataset_knows(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Also those of a selection of a selection, by their places in it."""
    for number in range(6):
        path = tmp_path / f"{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(8, 8))
    photos = open_dataset(tmp_path).take([5, 3, 1]).take([2, 0])
    assert Rows(PLAN, photos, [1, 0]).keys() == [photos.keys()[1], photos.keys()[0]]


def test_names_of_torch_items() -> None:
    """Their numbers: nothing is read for them."""

    class Items:
        reads = 0

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> tuple[Image.Image, int]:
            self.reads += 1
            return Image.new("RGB", (8, 8)), 0

    items = Items()
    dataset = from_torch(items)
    before = items.reads
    assert str(Rows(PLAN, dataset, [2])) == "step 7: 2"
    assert items.reads == before


@pytest.mark.parametrize("is_selection", [False, True])
def test_no_sample_is_read_for_its_name(is_selection: bool) -> None:
    """Where reading is what hangs, that would hang, too."""
    dataset = SmallDataset([b""] * 4, [0] * 4)
    rows = Rows(PLAN, dataset.take([3, 1]) if is_selection else dataset, [1])
    assert rows.keys() == ["sample 1"]
    assert dataset.fetched == []
