"""The timer, the images everybody gets, the baselines, the comparison, the demo's photographs, the GPU visit."""

import io
import itertools
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from bench.baselines.ceiling import DecodeOnly
from bench.baselines.dali import DaliPipeline
from bench.baselines.libraries import (
    Baseline,
    Kornia,
    OpencvAlbumentations,
    TorchvisionPil,
    TorchvisionTensor,
    TorchvisionV2,
)
from bench.baselines.torch_loader import TorchLoader
from bench.baselines.torchvision_cuda import TorchvisionCuda
from bench.compare import compare as comparing
from bench.compare import timer
from bench.compare.compare import Settings, compare
from bench.compare.contestant import Footing, Unable
from bench.compare.epochs import Tally
from bench.compare.images import Repeated, collect
from bench.compare.lineup import Entry, lineup
from bench.compare.photographs import make_photographs
from bench.compare.report import comparison_document, show_comparison, verdicts
from bench.compare.result import Comparison, Row
from bench.compare.timer import Rate, time_slice
from gpu_aug import CenterCrop, GaussianBlur, Normalize, Recipe, Resize
from readers import Sample, open_dataset

Jpeg = Callable[..., bytes]

pytestmark = pytest.mark.filterwarnings(
    "ignore:The image decoding and encoding capabilities of TorchVision:DeprecationWarning"
)

TORCH_BASELINES = (TorchvisionPil, TorchvisionV2, TorchvisionTensor, OpencvAlbumentations, Kornia)


@pytest.fixture
def footing(photos: list[Path]) -> Footing:
    """Twelve photographs, four in a batch, on the CPU."""
    return Footing(
        open_dataset([str(path) for path in photos]),
        photos,
        [0] * len(photos),
        Recipe.imagenet_train(),
        batch_size=4,
        device=torch.device("cpu"),
        num_threads=2,
        seed=0,
    )


# The timer.


def test_slice_counts_after_what_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that lie ready do not count, and the clock stops with the first batch after the time."""
    now = 0.0
    seconds = itertools.chain([0.0] * 3, itertools.repeat(0.25))

    def next_batch() -> range:
        nonlocal now
        now += next(seconds)
        return range(8)

    monkeypatch.setattr(timer, "clock", lambda: now)

    turn = time_slice(next_batch, seconds=0.9, discard=3, finish=lambda: None)

    assert (turn.images, turn.seconds, turn.wait_seconds) == (32, 1.0, 1.0)
    assert turn.images_per_second == 32


def test_slice_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that a device still has to do when the last batch is handed over is part of the time."""
    now, pending = 0.0, 0.0

    def next_batch() -> range:
        nonlocal now, pending
        now, pending = now + 0.5, pending + 0.5
        return range(8)

    def finish() -> None:
        nonlocal now, pending
        now, pending = now + pending, 0.0

    monkeypatch.setattr(timer, "clock", lambda: now)

    turn = time_slice(next_batch, seconds=1.0, discard=1, finish=finish)

    assert (turn.images, turn.seconds, turn.wait_seconds) == (16, 2.0, 1.0)


# The images that everybody gets.


def test_a_format_that_a_baseline_cannot_read_is_left_out(tmp_path: Path, jpeg: Jpeg) -> None:
    """One GIF would end DALI's pipeline, so nobody gets it."""
    (tmp_path / "a.jpg").write_bytes(jpeg(40, 50))
    Image.new("RGB", (30, 20)).save(tmp_path / "b.gif")

    images = collect(str(tmp_path), tmp_path)

    assert [path.name for path in images.files] == ["a.jpg"]
    assert images.left_out == ["b.gif: not every pipeline reads its format"]


def test_speed_leaves_the_start_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch pays for the start and does not count in a run of seconds."""
    now = [5.0]
    monkeypatch.setattr("bench.compare.epochs.clock", lambda: now[0])
    tally = Tally(began=0.0)
    for _ in range(5):
        tally.add(8)
        now[0] += 0.5

    assert tally.rate.runs == (16.0, 16.0)


def test_speed_of_a_short_run_counts_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that were made beside the first one come at once, and are not told as thousands per second."""
    now = [4.0]
    monkeypatch.setattr("bench.compare.epochs.clock", lambda: now[0])
    tally = Tally(began=0.0)
    tally.add(8)
    assert tally.rate.runs == (2.0,)
    now[0] += 0.001
    tally.add(8)

    assert tally.rate.median == pytest.approx(4.0, rel=0.01)


def test_images_leave_out_what_does_not_decode(tmp_path: Path, jpeg: Jpeg) -> None:
    """A torn file is named, and neither our loader nor the baselines get it."""
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 50))
    (tmp_path / "torn.jpg").write_bytes(jpeg(40, 50)[:-300])

    images = collect(str(tmp_path), tmp_path)

    assert images.files == [tmp_path / "photo.jpg"]
    assert [fault.partition(":")[0] for fault in images.left_out] == ["torn.jpg"]
    keys = {sample.key for sample in images.dataset.fetch(range(20))}
    assert keys == {"photo.jpg"}


def test_images_in_shards_become_files(tmp_path: Path, jpeg: Jpeg) -> None:
    """Baselines read the same bytes and labels as our loader when the data are tar shards."""
    encoded = [jpeg(40, 50, seed=seed) for seed in range(3)]
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for number, data in enumerate(encoded):
            for field, content in (("jpg", data), ("cls", str(7 - number).encode())):
                member = tarfile.TarInfo(f"{number}.{field}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
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


# The baselines do the work that they are compared for.


@pytest.mark.parametrize("preset", ["imagenet_train", "imagenet_train_jitter", "imagenet_eval"])
@pytest.mark.parametrize("baseline", TORCH_BASELINES)
def test_baseline_makes_normalised_floats(
    baseline: type[Baseline], preset: str, photos: list[Path]
) -> None:
    """Every baseline turns photographs into float32 [B, 3, 224, 224], normalised."""
    peer = baseline(Recipe.preset(preset))

    images = peer.finish(torch.stack([peer.augment(peer.open(path)) for path in photos[:4]]))

    assert images.dtype == torch.float32
    assert images.shape == (4, 3, 224, 224)
    assert images.min() < -0.5  # neither 0 to 1 nor 0 to 255
    assert 0.5 < images.max() < 2.7


def evaluated(photos: list[Path]) -> torch.Tensor:
    """The evaluation recipe carried out by torchvision on PIL images."""
    judge = TorchvisionPil(Recipe.imagenet_eval())
    return torch.stack([judge.augment(judge.open(path)) for path in photos[:4]])


@pytest.mark.parametrize("baseline", [TorchvisionV2, TorchvisionTensor, OpencvAlbumentations])
def test_baseline_follows_the_recipe(baseline: type[Baseline], photos: list[Path]) -> None:
    """On a recipe without chance a baseline agrees with torchvision, and not on another recipe."""
    expected = evaluated(photos)

    def distance(recipe: Recipe) -> float:
        peer = baseline(recipe)
        images = torch.stack([peer.augment(peer.open(path)) for path in photos[:4]])
        return float((images - expected).abs().mean())

    # Measured: 0.00002 on tensors, 0.16 without antialiasing, 0.5 and more for another size.
    assert distance(Recipe.imagenet_eval()) < 0.2
    assert distance(Recipe.imagenet_eval(resize=300)) > 0.25


@pytest.mark.needs_dali
def test_dali_baseline_follows_the_recipe(footing: Footing, photos: list[Path]) -> None:
    """The plain DALI pipeline makes the evaluation images of torchvision, in an order of its own."""
    expected = evaluated(photos).flatten(1)

    def distance(recipe: Recipe) -> float:
        few = replace(footing, recipe=recipe, files=photos[:4], labels=[0, 1, 2, 3])
        pipeline = DaliPipeline(few, decode="cpu")
        pipeline.open()
        images = pipeline.next_batch().flatten(1)
        pipeline.close()
        nearest = torch.cdist(images, expected, p=1).min(dim=1).values
        return float(nearest.mean() / expected.shape[1])

    # Measured: 0.025, nearly all of it in an image whose longer side DALI rounds up; 0.6 for another size.
    assert distance(Recipe.imagenet_eval()) < 0.1
    assert distance(Recipe.imagenet_eval(resize=300)) > 0.25


@pytest.mark.parametrize("baseline", TORCH_BASELINES)
def test_baseline_declines_what_it_is_not_written_for(baseline: type[Baseline]) -> None:
    """A recipe outside the presets' operations is refused by name, not done in part."""
    recipe = Recipe([Resize((64, 64)), GaussianBlur(5), Normalize()])

    with pytest.raises(Unable, match="GaussianBlur"):
        baseline(recipe)


def test_dali_baseline_declines_what_it_is_not_written_for(footing: Footing) -> None:
    """The DALI pipeline, too, refuses a recipe of another shape."""
    with pytest.raises(Unable, match="CenterCrop"):
        DaliPipeline(replace(footing, recipe=Recipe([CenterCrop(64)])), decode="cpu")


# torchvision on the GPU: its steps are tried on the CPU, where they are the same.


def test_torchvision_cuda_follows_the_recipe(footing: Footing, photos: list[Path]) -> None:
    """On a recipe without chance it makes torchvision's images, in an order of its own, and not another recipe's."""
    expected = evaluated(photos).flatten(1)

    def distance(recipe: Recipe) -> float:
        few = replace(footing, recipe=recipe, files=photos[:4], labels=[0, 1, 2, 3])
        pipeline = TorchvisionCuda(few)
        pipeline.open()
        images = pipeline.next_batch().flatten(1)
        pipeline.close()
        nearest = torch.cdist(images, expected, p=1).min(dim=1).values
        return float(nearest.mean() / expected.shape[1])

    # Measured: 0.003; 0.6 for another size.
    assert distance(Recipe.imagenet_eval()) < 0.02
    assert distance(Recipe.imagenet_eval(resize=300)) > 0.25


def test_torchvision_cuda_draws_for_each_image(footing: Footing, photos: list[Path]) -> None:
    """Of one file in a whole batch no two images are alike: crops and flips are not drawn once for all."""
    one = replace(footing, files=photos[:1] * 4, dtype=torch.bfloat16)
    pipeline = TorchvisionCuda(one)
    pipeline.open()
    images = pipeline.next_batch()
    pipeline.close()

    assert (images.dtype, images.shape) == (torch.bfloat16, (4, 3, 224, 224))
    pairs = itertools.combinations(images, 2)
    assert all((a - b).abs().mean() > 0.01 for a, b in pairs)


@pytest.mark.needs_cuda
def test_torchvision_cuda_runs_on_a_gpu(footing: Footing) -> None:
    """There it hands over batches on the device, normalised."""
    [entry] = [entry for entry in lineup(["torchvision-cuda"]) if entry.kind == "baseline"]
    contestant = entry.enter(replace(footing, device=torch.device("cuda", 0)))
    contestant.open()
    images = contestant.next_batch()  # type: ignore[union-attr] # it is in this process
    contestant.close()

    assert (images.shape, images.device) == ((4, 3, 224, 224), torch.device("cuda", 0))
    assert images.min() < -0.5


def test_torchvision_cuda_says_what_it_cannot_do(
    footing: Footing, photos: list[Path], tmp_path: Path
) -> None:
    """Without a GPU, and for files that are no JPEGs, it is absent with the reason."""
    [entry] = [entry for entry in lineup(["torchvision-cuda"]) if entry.kind == "baseline"]
    Image.new("RGB", (30, 20)).save(tmp_path / "b.png")

    with pytest.raises(Unable, match="CUDA device, and the batches are for cpu"):
        entry.enter(footing)
    with pytest.raises(Unable, match=r"JPEGs only, and b\.png is none"):
        TorchvisionCuda(replace(footing, files=[*photos, tmp_path / "b.png"]))


# The comparison.


class Fake:
    """A contestant that makes black images, and may crash after some batches."""

    kind = "engine"
    note = ""
    num_ahead = 0
    num_discard = 1

    def __init__(self, name: str, crash_after: int | None = None) -> None:
        self.name = name
        self.is_open = False
        self._left = itertools.count() if crash_after is None else iter(range(crash_after))

    def open(self) -> None:
        """Start."""
        self.is_open = True

    def next_batch(self) -> torch.Tensor:
        """Make a batch, or crash."""
        if next(self._left, None) is None:
            raise RuntimeError("boom")
        return torch.zeros(2, 3, 224, 224, dtype=torch.bfloat16)

    def share(self) -> dict[str, float | None]:
        """Say that everything takes as long."""
        return dict.fromkeys(("read", "decode", "augment", "copy"), 0.25)

    def close(self) -> None:
        """Stop."""
        self.is_open = False


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fake]]:
    """A line-up of a sound contestant, one that crashes at once and one that crashes later."""
    made = [Fake("sound"), Fake("dead", crash_after=0), Fake("dying", crash_after=3)]
    entries = [Entry(fake.name, "engine", lambda _, fake=fake: fake) for fake in made]
    monkeypatch.setattr(comparing, "lineup", lambda *_, **__: entries)
    yield made
    assert not any(fake.is_open for fake in made)


def test_comparison_goes_on_without_those_that_crash(
    fakes: list[Fake], tmp_path: Path, jpeg: Jpeg
) -> None:
    """A crash, at the start or in a turn, leaves a reason and a traceback, and the others' rows."""
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 50))
    settings = Settings(seconds=0.02, rounds=3, batch_size=2)

    comparison = compare(str(tmp_path), Recipe.imagenet_train(), settings, lambda _: None)

    assert len(fakes) == 3
    assert [row.name for row in comparison.rows] == ["sound"]
    assert len(comparison.rows[0].rate.runs) == 3
    assert {absent.name: absent.reason for absent in comparison.absent} == {
        "dead": "RuntimeError: boom",
        "dying": "RuntimeError: boom",
    }
    assert all("Traceback" in absent.trace for absent in comparison.absent)


def test_comparison_checks_what_is_handed_over(
    fakes: list[Fake], tmp_path: Path, jpeg: Jpeg
) -> None:
    """A contestant whose batches have another size takes no part."""
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 50))
    settings = Settings(seconds=0.01, rounds=1, batch_size=5, only=(fakes[0].name,))

    comparison = compare(str(tmp_path), Recipe.imagenet_train(), settings, lambda _: None)

    assert [absent.reason for absent in comparison.absent] == [
        "made torch.bfloat16 [2, 3, 224, 224], not torch.bfloat16 [5, 3, 224, 224]"
    ]


def test_a_baseline_without_the_dtype_is_absent(tmp_path: Path, jpeg: Jpeg) -> None:
    """Batches of another dtype than everyone's are no result."""
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 50))
    settings = Settings(seconds=0.01, rounds=1, batch_size=2, dtype="float32", only=("sound",))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            comparing,
            "lineup",
            lambda *_, **__: [Entry("sound", "engine", lambda _: Fake("sound"))],
        )
        comparison = compare(str(tmp_path), Recipe.imagenet_train(), settings, lambda _: None)

    assert [absent.reason for absent in comparison.absent] == [
        "made torch.bfloat16 [2, 3, 224, 224], not torch.float32 [2, 3, 224, 224]"
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("baseline", [OpencvAlbumentations, Kornia])
def test_loader_of_a_baseline_has_the_dtype(
    baseline: type[Baseline], dtype: torch.dtype, footing: Footing
) -> None:
    """What is augmented in workers and what is augmented in batches both arrive in the footing's dtype."""
    loader = TorchLoader(baseline(footing.recipe), replace(footing, dtype=dtype))
    loader.open()

    images = loader.next_batch()
    loader.close()

    assert (images.dtype, images.shape) == (dtype, (4, 3, 224, 224))
    assert images.min() < -0.5


def test_decode_only_is_at_least_as_fast_as_threads(footing: Footing) -> None:
    """The ceiling tries every decoder, tells what each reached, and takes the fastest."""
    ceiling = DecodeOnly(footing)
    ceiling.open()
    assert len(ceiling.next_batch()) == footing.batch_size
    ceiling.close()

    rates = {name: int(rate) for name, rate in re.findall(r"([^,:]+) (\d+)[,)]", ceiling.note)}
    assert "OpenCV on threads" in {name.strip() for name in rates}
    best = max(rates, key=lambda name: rates[name])
    assert ceiling.note.startswith(f"whole images with {best.strip()}")


def row(name: str, kind: str, *runs: float) -> Row:
    """A row with some runs and no shares."""
    return Row(name, kind, Rate(runs), {}, "")  # type: ignore[arg-type]


def test_verdicts_tell_losses_like_wins() -> None:
    """A loss is told in the same words as a win."""
    rows = [
        row("gpu-aug/cpu+albumentations", "engine", 110, 110, 110),
        row("opencv-albumentations", "baseline", 55, 55, 55),
        row("dali-cpu", "baseline", 220, 220, 220),
        row("decode-only", "ceiling", 440, 440, 440),
    ]

    assert verdicts(rows) == [
        "gpu-aug/cpu+albumentations loses against the fastest baseline, dali-cpu (0.50 times its "
        "speed), wins against opencv-albumentations (2.00 times its speed), reaches 25% of decode-only."
    ]


UNSTEADY = [  # ours has rounds of 0.5, 3 and 3 times the baseline's; the medians over rounds are 500 and 200
    row("decode-only", "ceiling", 1000, 100, 300),
    row("dali-cpu", "baseline", 1000, 50, 200),
    row("gpu-aug/cpu+fused", "engine", 500, 150, 600),
]
REVERSED = [  # 0.95, 0.9 and 4 times; the medians are 95 and 90
    row("dali-cpu", "baseline", 100, 90, 25),
    row("gpu-aug/cpu+fused", "engine", 95, 81, 100),
]


def test_every_ratio_is_taken_within_rounds() -> None:
    """The column, the matrix, the sentences and the JSON say the same where medians over rounds would not."""
    stream = io.StringIO()
    settings = {"batch": "b", "device": "cpu", "threads": 2, "images": 3, "data": "d"}
    comparison = Comparison(UNSTEADY, [], settings)

    show_comparison(comparison, Console(file=stream, width=120))
    printed = stream.getvalue()
    document = comparison_document(comparison)

    lines = [line.split() for line in printed.splitlines()]
    assert ["gpu-aug/cpu+fused", "500", "150-600", "3.00", *"-----"] in lines
    assert ["dali-cpu", "200", "50-1000", "1.00", *"-----"] in lines
    assert ["decode-only", "300", "100-1000", "1.50", *"-----"] in lines
    assert ["dali-cpu", "3.00"] in lines  # the matrix
    assert ["decode-only", "1.50"] in lines
    sentence = (
        "gpu-aug/cpu+fused wins against the fastest baseline, dali-cpu (3.00 times its speed), "
        "reaches 150% of decode-only."
    )
    assert sentence in printed
    assert document["verdicts"] == [sentence]
    found: Any = document["ratios"]
    assert found["gpu-aug/cpu+fused"]["dali-cpu"]["median"] == 3.0
    caption = " ".join(printed.split("times the speed")[0].split())
    assert "median of the ratios within each round" in caption


def test_wins_and_losses_are_told_by_rounds() -> None:
    """Who is slower in most rounds loses, however much faster it was in one; and the other way round."""
    turned = [
        replace(REVERSED[0], rate=REVERSED[1].rate),
        replace(REVERSED[1], rate=REVERSED[0].rate),
    ]

    assert verdicts(REVERSED) == [
        "gpu-aug/cpu+fused loses against the fastest baseline, dali-cpu (0.95 times its speed)."
    ]
    assert verdicts(turned) == [
        "gpu-aug/cpu+fused wins against the fastest baseline, dali-cpu (1.05 times its speed)."
    ]


def test_who_has_fewer_rounds_is_compared_over_those() -> None:
    """A row that dropped out after two rounds is compared with the first two of the others."""
    rows = [
        row("gpu-aug/cpu+fused", "engine", 100, 100, 900, 900, 900),
        row("dali-cpu", "baseline", 200, 200),
    ]

    assert verdicts(rows) == [
        "gpu-aug/cpu+fused loses against the fastest baseline, dali-cpu (0.50 times its speed)."
    ]


def test_table_fits_a_narrow_terminal() -> None:
    """On 80 columns every name and median can still be read."""
    stream = io.StringIO()
    rows = [row("gpu-aug/dali+albumentations", "engine", 1234), row("dali-cpu", "baseline", 1000)]
    settings = {"batch": "b", "device": "cpu", "threads": 2, "images": 3, "data": "d"}

    show_comparison(Comparison(rows, [], settings), Console(file=stream, width=80))

    line = next(line for line in stream.getvalue().splitlines() if "dali+albumentations" in line)
    assert line.split()[:3] == ["gpu-aug/dali+albumentations", "1234", "1.23"]


def test_compare_command_writes_what_it_measured(photos: list[Path], tmp_path: Path) -> None:
    """The command compares an engine, a baseline and the ceiling, and its JSON has their rows."""
    listing = tmp_path / "photos.txt"
    listing.write_text("\n".join(str(path) for path in photos))
    names = {
        "gpu-aug/cpu+kornia": "engine",
        "torchvision-pil": "baseline",
        "decode-only": "ceiling",
    }
    command = [sys.executable, "-m", "bench", "bench", "compare", str(listing)]
    command += ["--seconds=0.2", "--rounds=2", "--batch-size=4", "--device=cpu", "--threads=2"]
    command += [f"--only={name}" for name in names] + [f"--json={tmp_path / 'result.json'}"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert {row["name"]: row["kind"] for row in result["rows"]} == names
    assert {"versions", "machine", "commit", "settings"} <= set(result)
    for measured in result["rows"]:
        assert len(measured["images_per_second"]["runs"]) == 2
        assert set(measured["share"]) == {"read", "decode", "augment", "copy", "wait"}
        assert measured["name"] in done.stdout


# The demo's photographs, and the visit to a GPU machine.


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
