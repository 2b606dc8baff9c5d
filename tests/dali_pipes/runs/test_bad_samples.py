"""Bad samples: what each policy does, that neighbours survive, and what the ledger says."""

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from dali_pipes import BadSampleError, Execution, LoaderError, Monitoring
from dali_pipes.decode import opencv
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.decode.dali.image_decoder import DaliImageDecoder
from dali_pipes.errors import DecodeError
from dali_pipes.stages import dali_feeds as make
from dali_pipes.stages.data import Fetched
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.loaders import (
    assert_same_images,
    draw_canvases_in_dali,
    images_by_index,
    indices_of,
    loader_maker,
    rows_of,
    write_images,
)

Rows = list[tuple[int, torch.Tensor]]
RECIPE = Recipe([RandomResizedCrop(24), HorizontalFlip()])
DECODERS = ["cpu", pytest.param("dali", marks=pytest.mark.needs_dali)]
BATCH_SIZE = 5
BAD = {3: "decode", 8: "header", 9: "header", 14: "decode", 17: "header"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Twenty images, five of them bad in different ways."""
    images = [jpeg(60 + number, 50, seed=number) for number in range(20)]
    images[3] = images[3][: len(images[3]) // 2]  # cut in the middle of the picture
    images[8], images[9] = b"", b"<html>404 not found</html>"
    # In 14 the end marker is there, but the Huffman tables are nonsense; 17 promises far more pixels than it has.
    for number, marker, nonsense in ((14, 0xC4, b"\xff" * 16), (17, 0xC0, b"\xff\xdc\xff\xdc")):
        data = images[number]
        at = data.index(bytes([0xFF, marker])) + 5
        images[number] = data[:at] + nonsense + data[at + len(nonsense) :]
    return write_images(tmp_path_factory.mktemp("faulty"), images)


load = loader_maker(
    RECIPE, batch_size=5, dtype=torch.float32, shuffle="none", on_bad_sample="replace"
)


def assert_same_rows(actual: Rows, expected: Rows) -> None:
    assert [index for index, _ in actual] == [index for index, _ in expected]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(actual, expected, strict=True))


@pytest.mark.parametrize("decoder", DECODERS)
class TestPolicies:
    def test_raise_names_the_sample(self, dataset: Dataset, decoder: str) -> None:
        """By default the batch with a bad sample stops the run, and says which sample and what to do."""
        loader = load(dataset, on_bad_sample="raise", decoder=decoder)
        with pytest.raises(
            BadSampleError, match=r"sample 3 \(.*03.jpg\) is bad \(decode: .*replace"
        ):
            list(loader)
        assert loader.state_dict()["consumed"] == 0

    def test_raise_hands_over_earlier_batches(self, dataset: Dataset, decoder: str) -> None:
        """Batches before the bad one are handed over as if nothing were wrong."""
        loader = load(dataset, on_bad_sample="raise", decoder=decoder, batch_size=1)
        batches = iter(loader)

        assert [next(batches).indices.tolist() for _ in range(3)] == [[0], [1], [2]]
        with pytest.raises(BadSampleError):
            next(batches)

    def test_replace_keeps_neighbours(self, dataset: Dataset, decoder: str) -> None:
        """Each bad row holds another, good sample; every other row is bit for bit what it always is."""
        rows = rows_of(load(dataset, decoder=decoder))
        alone = images_by_index(load(dataset, decoder="cpu", batch_size=1))

        assert len(rows) == 20
        for row, (index, image) in enumerate(rows):
            assert index not in BAD if row in BAD else index == row
            assert torch.equal(image, alone[index])

    def test_skip_leaves_the_row_out(self, dataset: Dataset, decoder: str) -> None:
        """A skipped sample makes its batch smaller; the number of batches stays."""
        batches = list(load(dataset, on_bad_sample="skip", decoder=decoder))

        assert [len(batch) for batch in batches] == [4, 3, 4, 4]
        assert indices_of(batches) == [i for i in range(20) if i not in BAD]
        assert all(len(b.keys) == len(b.labels) == len(b.valid) == len(b) for b in batches)

    def test_ledger(self, dataset: Dataset, decoder: str, tmp_path: Path) -> None:
        """Every bad sample is written down once, with where and why."""
        ledger = tmp_path / "bad.jsonl"
        loader = load(
            dataset, on_bad_sample="skip", decoder=decoder, monitoring=Monitoring(ledger=ledger)
        )
        list(loader)

        lines = [json.loads(line) for line in ledger.read_text().splitlines()]
        assert {line["index"]: line["stage"] for line in lines} == BAD
        assert [line["step"] for line in lines] == [0, 1, 1, 2, 3]
        assert all(line["key"] and line["reason"] for line in lines)
        assert {(line["epoch"], line["rank"]) for line in lines} == {(0, 0)}
        assert [record.index for record in loader.bad_samples] == list(BAD)

    def test_budget(self, dataset: Dataset, decoder: str) -> None:
        """A run that meets more bad samples than allowed is stopped."""
        loader = load(dataset, on_bad_sample="skip", decoder=decoder, max_bad_samples=2)
        with pytest.raises(
            BadSampleError,
            match=r"3 bad samples.*max_bad_samples=2; repair the data, or allow more \(a ledger",
        ):
            list(loader)


@pytest.mark.parametrize("decoder", DECODERS)
def test_numbers_that_no_box_can_hold(
    tmp_path: Path, jpeg: Callable[..., bytes], decoder: str
) -> None:
    """Targets that raise something else than the usual errors are their sample's verdict, not the run's end."""
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(40, 40, seed=number))
        far = 10**400 if number == 2 else 9
        (tmp_path / f"{number}.json").write_text(
            json.dumps({"boxes": [[1, 2, 8, far]], "labels": [0]})
        )
    loader = load(open_dataset(tmp_path), decoder=decoder, on_bad_sample="skip", batch_size=4)

    assert [batch.indices.tolist() for batch in loader] == [[0, 1, 3]]
    assert [(bad.index, bad.stage) for bad in loader.bad_samples] == [(2, "targets")]


@pytest.mark.parametrize(
    "error", [KeyError("tag"), struct.error("short"), MemoryError(), EOFError()]
)
def test_whatever_a_decoder_raises_is_its_images_verdict(
    jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Pillow's readers let through what damaged bytes make of them; the reason names it where its words do not."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Image.Image, "convert", fail)
    monkeypatch.setattr(opencv, "opencv_for", lambda _: None)
    with pytest.raises(DecodeError, match=f"Pillow: {type(error).__name__}"):
        opencv.decode(jpeg(40, 30), (30, 40))


def test_replacement_does_not_depend_on_batch_or_ranks(dataset: Dataset) -> None:
    """The same substitute with the same draws takes a bad sample's place on any rank."""
    ranks = [load(dataset, rank=r, world_size=4, batch_size=1) for r in range(4)]
    shared = [pair for step in zip(*ranks, strict=True) for pair in rows_of(step)]
    assert_same_rows(shared, rows_of(load(dataset)))


@pytest.mark.needs_dali
def test_bad_sample_in_every_place(dataset: Dataset) -> None:
    """Whichever row of a batch DALI refuses, its neighbours come through."""
    options = {"on_bad_sample": "skip", "last_batch": "partial"}
    expected = list(load(dataset, **options))
    for batch_size in (1, 3, 4, 7, 20):
        loader = load(dataset, decoder="dali", batch_size=batch_size, **options)
        assert_same_images(loader, expected)


@pytest.mark.needs_dali
def test_canvases_from_the_graph(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way a GPU takes, with the resize in DALI's graph, gives the same rows within its tolerance."""
    expected = rows_of(load(dataset))
    draw_canvases_in_dali(monkeypatch)
    actual = rows_of(load(dataset, decoder="dali"))

    assert [index for index, _ in expected] == [index for index, _ in actual]
    for (_, wanted), (_, image) in zip(expected, actual, strict=True):
        gap = (wanted - image).abs() * 255
        assert gap[:, 3:-3, 3:-3].max() <= 1.01
        assert gap.max() <= 30  # the images here are noise, and the border of a crop is sharp
    shuffled = [image for _, image in actual[1:]] + [actual[0][1]]
    assert (shuffled[0] - expected[0][1]).abs().max() * 255 > 30


@pytest.mark.needs_dali
def test_what_dali_alone_refuses(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound images that DALI refuses are decoded here; their neighbours stay DALI's, to the bit."""

    class Picky(Feed):
        def take(self, cuda_stream: Any = None) -> Sequence[Any] | None:
            super().take(cuda_stream)
            return None  # every batch has one of them

    again = DaliImageDecoder._again

    def refuse_two(
        decoder: DaliImageDecoder, fetched: Fetched, hidden: set[int]
    ) -> Sequence[Any] | None:
        outputs = again(decoder, fetched, hidden)
        rows = [row for row, index in enumerate(fetched.indices) if index in (5, 11)]
        return None if any(row not in hidden for row in rows) else outputs

    monkeypatch.setattr(DaliImageDecoder, "_again", refuse_two)
    options: dict[str, Any] = {
        "on_bad_sample": "skip",
        "batch_size": 10,
        "execution": Execution(prefetch=1),
    }
    draw_canvases_in_dali(monkeypatch, depth=1)
    expected = images_by_index(load(dataset, decoder="dali", **options))
    monkeypatch.setattr(make, "Feed", Picky)
    with pytest.warns(RuntimeWarning, match=r"refused 1 of them.*(05|11)\.jpg\)") as said:
        actual = images_by_index(load(dataset, decoder="dali", **options))

    assert len(said) == 2
    assert actual.keys() == expected.keys()
    assert [n for n in expected if not torch.equal(actual[n], expected[n])] == [5, 11]
    assert all((actual[n] - expected[n]).abs().max() < 0.15 for n in (5, 11))


@pytest.mark.needs_dali
@pytest.mark.parametrize("most", [0, 3])
def test_dali_refuses_whatever_it_gets(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Or more than so many at once: then the batch is decoded here, and DALI's words are passed on."""

    class Picky(Feed):
        def take(self, cuda_stream: Any = None) -> Sequence[Any] | None:
            outputs = super().take(cuda_stream)
            self.refusal = "out of memory"
            return None if most < BATCH_SIZE else outputs

    again = DaliImageDecoder._again

    def refuse_many(
        decoder: DaliImageDecoder, fetched: Fetched, hidden: set[int]
    ) -> Sequence[Any] | None:
        outputs = again(decoder, fetched, hidden)
        lost = {row for row, data in enumerate(fetched.data) if data is None}
        asked = len(fetched) - len(hidden | lost)
        return None if asked > most or most == asked == 0 else outputs

    monkeypatch.setattr(DaliImageDecoder, "_again", refuse_many)
    options: dict[str, Any] = {
        "on_bad_sample": "skip",
        "batch_size": BATCH_SIZE,
        "execution": Execution(prefetch=1),
    }
    expected = list(load(dataset, **options))
    draw_canvases_in_dali(monkeypatch, depth=1)
    monkeypatch.setattr(make, "Feed", Picky)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        actual = list(load(dataset, decoder="dali", **options))

    assert indices_of(actual) == indices_of(expected)
    if most == 0:
        assert_same_images(actual, expected)


@pytest.mark.needs_dali
def test_many_epochs_stay_aligned(dataset: Dataset) -> None:
    """After many batches with bad samples every row is still the sample it claims to be."""
    options = {"shuffle": "global", "max_bad_samples": 10_000}
    loader = load(dataset, decoder="dali", batch_size=2, **options)
    reference = load(dataset, batch_size=10, **options)
    for _ in range(12):
        assert_same_rows(rows_of(loader), rows_of(reference))


def test_a_dataset_of_nothing_but_bad_samples(tmp_path: Path) -> None:
    """When every substitute is bad, too, the run stops instead of searching for ever."""
    dataset, ledger = write_images(tmp_path, [b"no picture"] * 4), tmp_path / "bad.jsonl"
    with pytest.raises(BadSampleError, match=r"so are all that could replace it \(tried: 16;"):
        list(load(dataset, batch_size=1, max_bad_samples=4, monitoring=Monitoring(ledger=ledger)))
    assert len(ledger.read_text().splitlines()) == 17


def test_default_budget_outlasts_a_long_run(dataset: Dataset) -> None:
    """The same few bad samples in every epoch do not spend the budget."""
    loader = load(dataset, on_bad_sample="skip", decoder="cpu", batch_size=20)
    for _ in range(25):
        assert sum(len(batch) for batch in loader) == 15
    assert len(loader.bad_samples) == 125


def test_default_budget_stops_a_broken_dataset(tmp_path: Path) -> None:
    """When more than half of a small dataset is bad, the run stops."""
    dataset = write_images(tmp_path, [b"no picture"] * 10)
    with pytest.raises(BadSampleError, match=r"6 bad samples.*max_bad_samples=5"):
        list(load(dataset, on_bad_sample="skip", batch_size=2))


def test_ledger_without_a_folder(dataset: Dataset, tmp_path: Path) -> None:
    """The folder of a ledger is made; where it cannot be made, this is noticed before the run."""
    load(dataset, monitoring=Monitoring(ledger=tmp_path / "gone" / "bad.jsonl"))
    assert (tmp_path / "gone").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(
        LoaderError, match=r"folder .*file cannot be made \(.*; choose another place"
    ):
        load(dataset, monitoring=Monitoring(ledger=tmp_path / "file" / "bad.jsonl"))


def test_a_batch_of_nothing_but_bad_samples(dataset: Dataset) -> None:
    """Under "skip" such a batch is empty but still counts as a step."""
    batches = list(load(dataset, batch_size=1, on_bad_sample="skip", decoder="cpu"))

    assert len(batches) == 20
    assert [step for step, batch in enumerate(batches) if len(batch) == 0] == list(BAD)
    assert batches[3].images.shape == (0, 3, 24, 24)


def test_a_dataset_that_returns_too_few_is_named(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that loses samples stops the run; a batch is never silently smaller."""
    fetch = type(dataset).fetch
    monkeypatch.setattr(type(dataset), "fetch", lambda self, indices: fetch(self, indices)[:-1])
    monkeypatch.setattr(type(dataset), "locate", lambda *_: None)

    with pytest.raises(LoaderError, match=r"fetch returned 4 samples for 5 indices"):
        next(iter(load(dataset, on_bad_sample="skip")))
