"""Batches of DALI's whose canvases it draws itself, beside those that our threads draw of the other rows."""

import io
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from dali_pipes import Execution
from dali_pipes.decode.cpu import render_row
from dali_pipes.runs.bad_samples import BadRecord
from dali_pipes.stages import read_samples
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.loaders import draw_canvases_in_dali, loader_maker, rows_of

Jpeg = Callable[..., bytes]
Rows = list[tuple[int, torch.Tensor]]

RECIPE = Recipe([RandomResizedCrop(24), HorizontalFlip()])
BATCH_SIZE = 5
PNG_ROWS = (1, 3)  # the same ones in every batch, so that two batches cannot be told apart by them
EDGE = (
    30 / 255
)  # the most that DALI's resize and ours differ at the border of a crop, where it is sharp

pytestmark = pytest.mark.needs_dali


def cut(data: bytes) -> bytes:
    """Half of a file: DALI is not given a JPEG without its end marker."""
    return data[: len(data) // 2]


def nonsense(data: bytes) -> bytes:
    """A JPEG with its end marker and impossible Huffman tables: DALI is given it, and refuses the batch."""
    at = data.index(b"\xff\xc4") + 5
    return data[:at] + b"\xff" * 16 + data[at + 16 :]


def png(jpeg: bytes) -> bytes:
    """The picture of a JPEG as a PNG, which our threads draw."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(jpeg)) as image:
        image.save(stream, "PNG")
    return stream.getvalue()


def write(folder: Path, number: int, data: bytes) -> None:
    suffix = "png" if data.startswith(b"\x89PNG") else "jpg"
    (folder / f"{number:02d}.{suffix}").write_bytes(data)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, jpeg: Jpeg) -> Dataset:
    """Forty images, two PNGs in every batch of five, and in three of the eight batches broken files."""
    folder = tmp_path_factory.mktemp("mixed")
    damages = {12: nonsense, 20: lambda _: b"", 29: cut, 31: cut}  # 31 is a PNG
    for number in range(40):
        data = jpeg(60 + number, 50, seed=number)
        if number % BATCH_SIZE in PNG_ROWS:
            data = png(data)
        write(folder, number, damages.get(number, bytes)(data))
    return open_dataset(folder)


@pytest.fixture
def in_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DALI draw the canvases, as on a GPU."""
    draw_canvases_in_dali(monkeypatch)


usual_loader = loader_maker(
    RECIPE,
    batch_size=BATCH_SIZE,
    shuffle="none",
    on_bad_sample="replace",
    execution=Execution(prefetch=3),
    dtype=torch.float32,
    num_threads=2,
    max_bad_samples=20,
)


def load(dataset: Dataset, decoder: str, **options: Any) -> Rows:
    """All rows of an epoch: their indices and images."""
    return rows_of(usual_loader(dataset, decoder=decoder, **options))


def same(wanted: torch.Tensor, image: torch.Tensor) -> bool:
    """Whether images differ by no more than DALI's resize and ours do."""
    gap = (wanted - image).abs()
    return bool(gap[:, 3:-3, 3:-3].max() * 255 <= 1.01 and gap.max() <= EDGE)


def check(actual: Rows, expected: Rows) -> None:
    """Every row is its sample's; and the comparison tells apart every row from its neighbour."""
    assert [index for index, _ in actual] == [index for index, _ in expected]
    wrong = [
        place
        for place, ((_, image), (_, wanted)) in enumerate(zip(actual, expected, strict=True))
        if not same(wanted, image)
    ]
    assert wrong == []
    images = [image for _, image in expected]
    assert not any(same(one, next_one) for one, next_one in pairwise(images))


@pytest.mark.parametrize("shuffle", ["none", "global"])
@pytest.mark.parametrize("policy", ["replace", "skip"])
@pytest.mark.usefixtures("in_graph")
def test_rows_are_their_samples(mixed: Dataset, policy: str, shuffle: str) -> None:
    """With three batches in DALI, drawn canvases come to the batch and the row that they were drawn for."""
    options = {"on_bad_sample": policy, "shuffle": shuffle}

    actual = load(mixed, "dali", **options)

    check(actual, load(mixed, "cpu", **options))
    assert len(actual) == (36 if policy == "skip" else 40)


@pytest.mark.parametrize("policy", ["replace", "skip"])
@pytest.mark.usefixtures("in_graph")
def test_slow_draws_are_waited_for(
    mixed: Dataset, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that DALI has done long before our threads still has their canvases, drawn anew ("skip") or not."""
    num_drawn = 0

    def slow(*arguments: Any) -> Any:
        nonlocal num_drawn
        num_drawn += 1
        time.sleep(0.05)
        return render_row(*arguments)

    expected = load(mixed, "cpu", on_bad_sample=policy)
    monkeypatch.setattr("dali_pipes.decode.cpu.render_row", slow)
    actual = load(mixed, "dali", on_bad_sample=policy)

    check(actual, expected)
    assert num_drawn >= 16


@pytest.mark.usefixtures("in_graph")
def test_as_many_drawn_rows_but_others(
    tmp_path: Path, jpeg: Jpeg, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drawn row gets a JPEG for DALI and another row a PNG: not the number of them changes, but which.

    The cut file's row is drawn, and its substitute is a JPEG; the nonsense is noticed once DALI refused the batch.
    """
    damages: dict[int, Callable[[bytes], bytes]] = {1: cut, 3: nonsense, 6: png}
    for number in range(BATCH_SIZE + 2):  # one batch, and two that are in none
        data = jpeg(60 + number, 50, seed=9 * number)
        write(tmp_path, number, damages.get(number, bytes)(data))
    dataset = open_dataset(tmp_path)
    substitutes = {1: 5, 3: 6}

    def substitute(_seed: int, bad: list[BadRecord], _length: int) -> int:
        return substitutes[bad[-1].index]

    monkeypatch.setattr(read_samples, "substitute", substitute)
    actual = load(dataset, "dali")

    assert [index for index, _ in actual] == [0, 5, 2, 6, 4]
    check(actual, load(dataset, "cpu"))
