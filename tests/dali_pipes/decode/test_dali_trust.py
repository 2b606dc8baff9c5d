"""Which files DALI gets: sound JPEGs of a common kind, judged once, whatever their batch and their place in it."""

import io
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from bench.gpu.broken import broken_files
from dali_pipes import Execution, LoaderError
from dali_pipes.decode.dali import feed as feed_module
from dali_pipes.decode.dali.driver import Inputs
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.decode.dali.trust import DaliEligibility
from dali_pipes.jpeg.seek_point_stores import SeekPointMemory, StoredSeekPoints
from dali_pipes.jpeg.seek_points import spans_of
from dali_pipes.stages import dali_feeds as make
from dali_pipes.stages.data import Fetched
from dali_pipes.stages.encoded_rows import encoded_columns
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import open_dataset
from readers.datasets.dataset import Subset
from readers.datasets.selection import IndexSelection
from tests.support.loaders import (
    assert_same_images,
    draw_canvases_in_dali,
    images_by_index,
    indices_of,
    loader_maker,
    write_images,
)
from tests.support.streams import write_shards

RECIPE = Recipe([RandomResizedCrop(24), HorizontalFlip()])
SIZE = (48, 64)
NUM_SOUND = 12

needs_dali = pytest.mark.needs_dali


def encoded(seed: int = 0, mode: str = "RGB", **options: Any) -> bytes:
    """A JPEG by Pillow."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*SIZE, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, "JPEG", **{"quality": 80, **options})
    return stream.getvalue()


def frame(data: bytes, marker: int, bits: int = 8) -> bytes:
    """A JPEG that says it is of another process, and has other bits to a channel."""
    at = data.index(b"\xff\xc0")
    return (
        data[:at] + bytes([0xFF, marker]) + data[at + 2 : at + 4] + bytes([bits]) + data[at + 5 :]
    )


SUITABLE = {
    "ordinary": encoded(),
    "4:4:4": encoded(subsampling="4:4:4"),
    "gray": encoded(mode="L"),
    "restart markers": encoded(restart_marker_blocks=3),
    "progressive": encoded(progressive=True),
    "progressive, gray": encoded(mode="L", progressive=True),
}
OTHERS = {
    "RGB": encoded(keep_rgb=True),
    "RGB, progressive": encoded(keep_rgb=True, progressive=True),
    "CMYK": encoded(mode="CMYK"),
    "CMYK, progressive": encoded(mode="CMYK", progressive=True),
    "12 bits": frame(encoded(), 0xC1, 12),
    "lossless": frame(encoded(), 0xC3),
    "arithmetic": frame(encoded(), 0xC9),
    "nothing": b"",
}
DAMAGED = broken_files(encoded())


class Files:
    """A step of files, as far as their verdicts need it."""

    def __init__(self, data: Sequence[Any], sizes: Sequence[tuple[int, int]]) -> None:
        self.data, self.sizes, self.indices = data, np.array(sizes), np.arange(len(data))
        self.spans = spans_of([np.frombuffer(one, np.uint8) for one in data])

    def __len__(self) -> int:
        return len(self.data)

    @property
    def has_sample(self) -> Any:
        """All rows have."""
        return np.ones(len(self), bool)


def are_hidden(
    trust: DaliEligibility, *data: Any, sizes: Sequence[tuple[int, int]] = ()
) -> list[bool]:
    files: Any = Files(data, sizes or [SIZE] * len(data))
    hidden = trust.rows_for_cpu(files)
    return [row in hidden for row in range(len(data))]


@pytest.mark.parametrize("name", SUITABLE)
def test_common_jpegs_suit(name: str) -> None:
    """Of any sampling, with restart markers, progressive; not if the size is another one than expected."""
    data, trust = SUITABLE[name], DaliEligibility(2, SeekPointMemory())
    height, width = SIZE

    for _ in range(2):  # judged, and looked up
        given = are_hidden(trust, data, memoryview(data), sizes=[SIZE, (height + 1, width)])
        assert given == [False, True]


@pytest.mark.parametrize("name", [*OTHERS, *DAMAGED])
def test_others_do_not(name: str) -> None:
    """What nvJPEG's backends read in different ways, and every kind of damage, markers at both ends or not."""
    data, trust = {**OTHERS, **DAMAGED}[name], DaliEligibility(2, SeekPointMemory())

    for _ in range(2):
        assert are_hidden(trust, data, SUITABLE["ordinary"]) == [True, False]


def test_turned_images_suit() -> None:
    """The size that is expected is that of the upright image."""
    exif = Image.Exif()
    exif[0x0112] = 6
    turned, trust = encoded(exif=exif), DaliEligibility(2, SeekPointMemory())

    assert are_hidden(trust, turned, turned, sizes=[SIZE[::-1], SIZE]) == [False, True]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound pictures, and between them all kinds of damaged ones."""
    root = tmp_path_factory.mktemp("damaged")
    sound = [encoded(seed) for seed in range(NUM_SOUND)]
    damaged = list(DAMAGED.values())
    mixed = [one for n in range(len(damaged)) for one in (damaged[n], *sound[n : n + 1])]
    write_images(root, mixed)
    return root


load = loader_maker(
    RECIPE,
    batch_size=8,
    shuffle="none",
    on_bad_sample="skip",
    decoder="dali",
    last_batch="partial",
    num_threads=2,
    max_bad_samples=99,
    execution=Execution(prefetch=1),
)


def sound_files(folder: Path, count: int) -> Any:
    return write_images(folder, map(encoded, range(count)))


class ByPlace(Feed):
    """In the first rows of a batch it makes another picture of a damaged file, as nvJPEG's engine does; else refuses it."""

    def inputs(self, fetched: Fetched, hidden: set[int]) -> Inputs:
        """See Feed."""
        data = list(fetched.data)
        for row in sorted(set(range(len(data))) - hidden):
            if data[row] in DAMAGED.values():
                data[row] = encoded(99) if row < 0.65 * len(data) else b"\xff\xd8 refused \xff\xd9"
        return super().inputs(
            replace(fetched, **encoded_columns(fetched.samples, data, ())), hidden
        )


@needs_dali
def test_damage_has_one_verdict_everywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every batch size a damaged file has the verdict, the reason and the pixels that it has without DALI."""
    dataset = open_dataset(folder)
    loader = load(dataset, decoder="cpu")
    expected = list(loader)
    reasons = [(bad.index, bad.stage, bad.reason) for bad in loader.bad_samples]
    monkeypatch.setattr(make, "Feed", ByPlace)
    for batch_size in (1, 3, 8):
        loader = load(dataset, batch_size=batch_size)
        assert_same_images(loader, expected)
        assert [(bad.index, bad.stage, bad.reason) for bad in loader.bad_samples] == reasons


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were judged, call by call."""
    counts: list[int] = []
    for store in (StoredSeekPoints, SeekPointMemory):

        def counted(one: Any, found: Sequence[Any], store_all: Any = store.store_all) -> None:
            counts.append(len(found))
            store_all(one, found)

        monkeypatch.setattr(store, "store_all", counted)
    return counts


@needs_dali
def test_files_are_judged_once(tmp_path: Path, judged: list[int]) -> None:
    """Not again in later epochs, after a loop that was left early, in another selection, or by another loader."""
    dataset = sound_files(tmp_path, NUM_SOUND)
    with load(dataset, batch_size=4) as loader:
        left = iter(loader)
        assert [len(next(left)) for _ in range(2)] == [4, 4]
        left.close()
        for _ in range(2):
            assert len(list(loader)) == 3
    with load(
        Subset(dataset, IndexSelection(np.tile(np.arange(NUM_SOUND), 3))), batch_size=4
    ) as loader:
        assert len(list(loader)) == 9

    assert sum(judged) == NUM_SOUND


@needs_dali
def test_samples_of_streams_are_judged_once(tmp_path: Path, judged: list[int]) -> None:
    """A stream does not tell how many it has, but files are known by their bytes."""
    stream: Any = open_dataset(write_shards(tmp_path, [4]), format="stream")
    with load(stream, batch_size=2) as loader:
        assert [sum(map(len, loader)) for _ in range(2)] == [4, 4]

    assert sum(judged) == 4


class Picky(Feed):
    """Refuses two samples, or whatever it gets, and counts how often it is asked again."""

    refuses: tuple[int, ...] = (5, 11)
    refuses_all = False
    asked = 0

    def inputs(self, fetched: Fetched, hidden: set[int]) -> Inputs:
        """See Feed; what is refused is not decodable."""
        given = [int(i) for row, i in enumerate(fetched.indices) if row not in hidden]
        inputs = dict(super().inputs(fetched, hidden))
        bad = Picky.refuses_all or any(index in self.refuses for index in given)
        if bad:
            rects = {name: inputs[name] for name in inputs if name != "encoded"}
            junk = [np.frombuffer(b"no picture", np.uint8)] * len(fetched)
            inputs = {**feed_module._tensor_lists(junk, {}), **rects}
        return inputs

    def run_now(self, *arguments: Any) -> Any:
        """See Driver."""
        Picky.asked += 1
        return super().run_now(*arguments)


@needs_dali
@pytest.mark.parametrize("canvases", [False, True])
def test_refusals_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canvases: bool
) -> None:
    """From the second epoch on what DALI refuses by itself is rendered beside the rest, and DALI is asked once."""
    monkeypatch.setattr(make, "Feed", Picky)
    monkeypatch.setattr(Picky, "asked", 0)
    draw_canvases_in_dali(monkeypatch, canvases=canvases)
    dataset = sound_files(tmp_path, NUM_SOUND)
    expected = load(dataset, decoder="cpu", batch_size=12)
    with load(dataset, batch_size=12) as loader:
        with pytest.warns(RuntimeWarning, match="batch of 12 samples .* it refused 2 of"):
            first = images_by_index(loader)
        # A placeholder, each of 12 alone, and those that were taken together.
        assert Picky.asked == 1 + 12 + 1
        Picky.asked = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            second = images_by_index(loader)

    assert Picky.asked == 0
    for actual in (first, second):
        wanted = images_by_index(expected)
        assert list(actual) == list(wanted)
        assert canvases or all(torch.equal(actual[n], wanted[n]) for n in wanted)


@needs_dali
def test_a_refusal_that_does_not_come_again_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that DALI takes when it is asked again is DALI's, and nobody is left to wonder why it came late."""
    monkeypatch.setattr(make, "Feed", Picky)
    monkeypatch.setattr(Picky, "refuses_all", True)
    take = Picky.take

    def mended(feed: Picky, *arguments: Any) -> Any:
        monkeypatch.setattr(Picky, "refuses_all", False)
        return take(feed, *arguments)

    monkeypatch.setattr(Picky, "take", mended)
    with (
        load(sound_files(tmp_path, 4), batch_size=4) as loader,
        pytest.warns(RuntimeWarning, match="batch of 4 samples .* it refused 0 of"),
    ):
        assert len(indices_of(loader)) == 4


@needs_dali
def test_what_refuses_everything_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that DALI lacked in one epoch is no verdict about samples: in the next it gets them all."""
    monkeypatch.setattr(make, "Feed", Picky)
    monkeypatch.setattr(Picky, "asked", 0)
    pushed: list[set[int]] = []
    inputs = Picky.inputs

    def noted(feed: Picky, fetched: Fetched, hidden: set[int]) -> Inputs:
        pushed.append(hidden)
        return inputs(feed, fetched, hidden)

    monkeypatch.setattr(Picky, "inputs", noted)
    with load(sound_files(tmp_path, 4), batch_size=4) as loader:
        monkeypatch.setattr(Picky, "refuses_all", True)
        with pytest.warns(RuntimeWarning, match="batch of 4 samples .* it refused 4 of"):
            assert len(indices_of(loader)) == 4
        monkeypatch.setattr(Picky, "refuses_all", False)
        pushed.clear()
        assert len(indices_of(loader)) == 4

    assert pushed == [set()]


@needs_dali
def test_a_warm_up_that_fails_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DALI that refuses the most common JPEG refuses all: the loop ends before its first batch, with DALI's words."""
    junk = lambda: np.frombuffer(b"no picture", np.uint8)  # noqa: E731
    monkeypatch.setattr("dali_pipes.decode.dali.graph.placeholder", junk)
    with pytest.raises(
        LoaderError,
        match=r'on the CPU.*doctor`, or use decoder="cpu"; error of DALI: nvImageCodec failure',
    ):
        next(iter(load(open_dataset(folder))))


@needs_dali
def test_the_share_reaches_dali(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the Loader to the operator of a GPU's pipeline, which is defined here, but not built; it gives the decoded images."""
    from nvidia.dali import Pipeline

    given: list[FeedOptions] = []
    monkeypatch.setattr(make, "FeedOptions", lambda **o: given.append(FeedOptions(**o)) or given[0])
    with load(
        open_dataset(folder), execution=Execution(hw_decoder_load=0.25, prefetch=1)
    ) as loader:
        next(iter(loader))
    monkeypatch.setattr(Pipeline, "build", Pipeline._build_graph)
    pipeline = feed_module._build(replace(given[0], device="mixed", canvases=True, device_id=0))

    decoders = [one._op for one in pipeline._ops if type(one._op).__name__ == "Image"]
    assert [one._init_args["hw_decoder_load"] for one in decoders] == [0.25]
    assert [one.device for one in pipeline._graph_outputs] == ["gpu", "gpu"]


def test_a_share_for_another_decoder_is_refused(folder: Path) -> None:
    """The share for the JPEG engine is for DALI."""
    half = Execution(hw_decoder_load=0.5)
    with pytest.raises(LoaderError, match='is for decoder="dali" alone; leave it out'):
        load(open_dataset(folder), decoder="cpu", execution=half)
