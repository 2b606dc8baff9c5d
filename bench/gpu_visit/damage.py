"""Steps: broken files in every place of a batch, and a long run among them."""

import time
import warnings
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.images import Repeated
from bench.gpu_visit.broken import broken_files
from bench.gpu_visit.coded import SIDE, code_of, coded_pictures, read_codes
from bench.gpu_visit.loop import Decoder, write_files
from bench.gpu_visit.memory import ALLOWED, growth, read_memory
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale
from dali_pipes import Loader
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe, Resize
from readers import Order, open_dataset

_SIZE = (160, 213)
_NO_CODE = -1
_UNFINISHED = ("progressive, cut, end marker put back",)
"""Where scans are missing libjpeg smooths; DALI's regions then differ from its own whole images, by up to 31/255."""
_RECIPE = Recipe([RandomResizedCrop(64), HorizontalFlip()])


@dataclass
class Run:
    """What a loader made of a folder.

    Attributes:
        images: [3, 64, 64] on the CPU by the sample's index.
        bad: Index and stage of each bad sample, in the order in which they were met.
        reasons: Why they were bad.
        warnings: What the loader warned of.
    """

    images: dict[int, torch.Tensor] = field(default_factory=dict)
    bad: list[tuple[int, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def positions(scale: Scale, data: Path, notes: Notes) -> None:
    """Every kind of broken file at every place of a batch: verdicts of the CPU, neighbours to the bit."""
    num = 4 if scale.on_gpu else 3
    sounds = photographs(data, _SIZE, num * (num + 2))
    broken = broken_files(sounds[0])
    with TemporaryDirectory() as root:
        folder = Path(root)
        sound = load(write_files(folder / "sound", sounds), "dali", scale.device, num)
        with notes.attempt("sound files again"):
            again = load(folder / "sound", "dali", scale.device, num)
            require_same(again, sound, set())
        for number, (name, content) in enumerate(broken.items()):
            notes.put(**{"under way": name})  # should it crash
            with notes.attempt(name) as row:
                places = {turn * num + turn for turn in range(num)}
                files = [content if n in places else one for n, one in enumerate(sounds)]
                unfinished = places if name in _UNFINISHED else set()
                damaged = write_files(folder / f"{number:03d}", files)
                judge(damaged, places, num, sound, scale, row, unfinished)
        everything = [*broken.values(), *sounds]
        with notes.attempt("all kinds in one batch") as row:
            count = len(everything)
            files = [sounds[0]] * len(broken) + sounds
            whole = load(write_files(folder / "whole", files), "dali", scale.device, count)
            mixed = write_files(folder / "mixed", everything)
            unfinished = {place for place, name in enumerate(broken) if name in _UNFINISHED}
            judge(mixed, set(range(len(broken))), count, whole, scale, row, unfinished)
    notes.put(**{"under way": None})
    found = {name: row for name, row in notes.found.items() if isinstance(row, dict)}
    wrong = [name for name, row in found.items() if "error" in row]
    refused = [name for name, row in found.items() if row.get("DALI refused sound batches")]
    notes.put(
        headline=f"{len(broken)} kinds of damage at {num} places; not as on the CPU: "
        f"{', '.join(wrong) or 'none'}; refused by DALI alone: {', '.join(refused) or 'none'}"
    )


def judge(
    folder: Path,
    places: set[int],
    batch_size: int,
    sound: Run,
    scale: Scale,
    row: dict[str, Any],
    unfinished: Set[int] = frozenset(),
) -> None:
    """Fill in a row about a folder with broken files at some places, of which some lack scans.

    Raises:
        AssertionError: A verdict is not the CPU's, a broken picture that the CPU decodes both times is another one, or
            the damage changes a neighbour.
    """
    actual = load(folder, "dali", scale.device, batch_size)
    expected = load(folder, "cpu", torch.device("cpu"), batch_size)
    row["verdicts"] = sorted({stage for _, stage in expected.bad}) or ["decodes"]
    row["reasons"] = sorted({reason[:120] for reason in expected.reasons})
    row["DALI refused sound batches"] = len(actual.warnings)
    assert actual.bad == expected.bad, (
        f"verdicts {actual.bad} instead of the CPU's {expected.bad}; reasons {actual.reasons[:2]}"
    )
    row["same reasons"] = actual.reasons == expected.reasons
    remaining = sound.images.keys() - {index for index, _ in expected.bad}
    assert actual.images.keys() == remaining, (
        f"{sorted(actual.images)} came instead of {sorted(remaining)}"
    )
    shown = {
        n: float((actual.images[n] - expected.images[n]).abs().max()) * 255
        for n in sorted(places & remaining)
    }
    _require_equal(shown, unfinished, scale, row)
    require_same(actual, sound, places)


def _require_equal(
    shown: dict[int, float], unfinished: Set[int], scale: Scale, row: dict[str, Any]
) -> None:
    """Judge by how much pictures differ that decode though they are broken; a GPU's may be anything."""
    row["broken pictures differ from the CPU's by"] = max(shown.values(), default=0.0)
    if scale.on_gpu:
        row["such differences"] = "only stated: the GPU decodes them"
        return
    row["such differences"] = "judged: 0 allowed"
    if unfinished & shown.keys():
        row["such differences"] += "; only stated where scans are missing"
    wrong = {n: gap for n, gap in shown.items() if n not in unfinished and not gap <= 0}
    assert not wrong, f"broken pictures differ, in 1/255 by index: {wrong}"


def require_same(actual: Run, sound: Run, places: set[int]) -> None:
    """Compare the pictures that are at no broken place.

    Raises:
        AssertionError: One of them has another bit.
    """
    others = {
        index: float((image - sound.images[index]).abs().max()) * 255
        for index, image in actual.images.items()
        if index not in places and not torch.equal(image, sound.images[index])
    }
    assert not others, (
        f"{len(others)} of {len(actual.images)} neighbours differ, by at most {max(others.values()):.3g}/255: "
        f"{sorted(others)[:10]}; warnings: {actual.warnings[:1]}"
    )


def load(folder: Path, decoder: Decoder, device: torch.device, batch_size: int) -> Run:
    """Load a folder in its order, without its bad samples."""
    run = Run()
    options: dict[str, Any] = {"shuffle": "none", "last_batch": "partial", "dtype": torch.float32}
    options |= {"on_bad_sample": "skip", "max_bad_samples": 10**6, "engine": "fused"}
    options |= {"decoder": decoder, "device": device, "batch_size": batch_size}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Loader(open_dataset(folder), _RECIPE, **options) as loader:
            for batch in loader:
                run.images |= dict(zip(batch.indices.tolist(), batch.images.cpu(), strict=True))
        run.bad = [(record.index, record.stage) for record in loader.bad_samples]
        run.reasons = [record.reason for record in loader.bad_samples]
    run.warnings = [str(one.message)[-300:] for one in said if "DALI" in str(one.message)]
    return run


def soak(scale: Scale, data: Path, notes: Notes) -> None:
    """1,000 batches, 1 % of whose files are broken: every row is the sample that it claims to be."""
    count, num = (1000, 32) if scale.on_gpu else (20, 8)
    with TemporaryDirectory() as root, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sound = coded_pictures(data, 99 * 32 if scale.on_gpu else 96)
        files = [*sound, *broken_files(photographs(data, _SIZE, 1)[0]).values()]
        folder = write_files(Path(root) / "soak", files)
        judged = load(folder, "cpu", torch.device("cpu"), 64)
        bad = np.isin(np.arange(len(files)), [index for index, _ in judged.bad])
        codes = np.array([code_of(n) if n < len(sound) else _NO_CODE for n in range(len(files))])
        notes.put(files=len(files), broken=len(files) - len(sound), bad=int(bad.sum()))
        options: dict[str, Any] = {"decoder": "dali", "device": scale.device, "engine": "fused"}
        options |= {"batch_size": num, "dtype": torch.float32}
        options |= {"on_bad_sample": "replace", "max_bad_samples": 10**6}
        dataset = Repeated(open_dataset(folder), np.arange(len(files)))
        began = time.perf_counter()
        with Loader(dataset, Recipe([Resize((SIDE, SIDE))]), **options) as loader:
            looks = follow(loader, Following(count, num, len(dataset), bad, codes), scale.device)
            met = {record.index for record in loader.bad_samples}
        seconds = round(time.perf_counter() - began, 1)
    grown = {name: value for name, value in growth(looks).items() if name != "device"}
    refusals = sum("DALI refused" in str(one.message) for one in said)
    notes.put(
        batches=count,
        seconds=seconds,
        bad_samples=len(met),
        refused_by_dali_alone=refusals,
        growth_mib=grown,
        headline=f"{count} batches of {num}, {len(met)} bad samples: every row is its sample; "
        f"{refusals} batches refused by DALI alone; MiB grown: {grown}",
    )
    wanted = {int(n) for n in _indices(count, num, len(dataset)).flat if bad[n % len(files)]}
    strange = {index for index in met if not bad[index % len(files)]}
    assert wanted <= met, f"{len(wanted - met)} bad samples are missing in bad_samples: {sorted(wanted - met)[:9]}"  # fmt: skip
    assert not strange, f"bad_samples has sound ones: {sorted(strange)[:9]}"
    assert met, "no bad sample came: the run proves nothing"
    too_much = {name: value for name, value in grown.items() if value > ALLOWED[name]}
    assert not too_much, f"memory grows, MiB: {too_much}, allowed {ALLOWED}"


@dataclass(frozen=True)
class Following:
    """What a run is expected to hand over.

    Attributes:
        count: Batches.
        batch_size: Samples in each.
        length: Of the dataset, which repeats the files.
        bad: bool [files], which files no decoder takes.
        codes: int64 [files], what is written on each; negative where anything may be.
    """

    count: int
    batch_size: int
    length: int
    bad: NDArray[np.bool_]
    codes: NDArray[np.int64]


def follow(loader: Loader, expected: Following, device: torch.device) -> list[dict[str, int]]:
    """Take batches, compare each row with what it should be, and return looks at the memory.

    Raises:
        AssertionError: A row is not the sample that it claims to be, or the control is not noticed.
    """
    indices = _indices(expected.count, expected.batch_size, expected.length)
    looks: list[dict[str, int]] = []
    wrong: list[torch.Tensor] = []
    every = max(1, expected.count // 20)
    for number, batch in enumerate(islice(loader, expected.count)):
        claimed = batch.indices.numpy()
        place = claimed % len(expected.codes)
        sound = ~expected.bad[indices[number] % len(expected.codes)]
        assert (claimed == indices[number])[sound].all(), f"batch {number} has other samples: {claimed} instead of {indices[number]}"  # fmt: skip
        assert not expected.bad[place].any(), f"batch {number} hands over bad samples: {claimed}"
        wanted = torch.from_numpy(expected.codes[place]).to(device, non_blocking=True)
        found = read_codes(batch.images)
        wrong.append((found != wanted) & (wanted >= 0))
        # Negative control: each row beside what its neighbour should be.
        control = ((found != wanted.roll(1)) & (wanted >= 0)).sum()
        if number % every == every - 1:
            _require_right(wrong, number + 1 - len(wrong), indices)
            wrong.clear()
            looks.append(read_memory(device))
    _require_right(wrong, expected.count - len(wrong), indices)
    assert int(control) > 0, "control: rows in each other's places are not noticed"
    return looks


def _require_right(wrong: list[torch.Tensor], first: int, indices: NDArray[np.int64]) -> None:
    """Raise for the first row whose picture is another one's."""
    if not wrong:
        return
    places = torch.stack(wrong).nonzero().tolist()
    if places:
        batch, row = places[0]
        raise AssertionError(
            f"row {row} of batch {first + batch} is not the picture of sample {indices[first + batch, row]} "
            f"(or of its substitute); {len(places)} rows of {len(wrong)} batches are wrong"
        )


def _indices(count: int, batch_size: int, length: int) -> NDArray[np.int64]:
    """The samples of the first batches of an epoch, int64 [count, batch_size]."""
    order = Order(length, 0)
    return order.places(0, np.arange(count * batch_size))[0].reshape(count, batch_size)
