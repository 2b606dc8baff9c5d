"""JPEGs are read as a whole once; later epochs begin at their checkpoints, and make the same batches."""

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Batch, Execution, Loader
from dali_pipes.decode import jpeg_batch_kernel
from dali_pipes.jpeg.seek_point_stores import SeekPointMemory
from dali_pipes.jpeg.seek_points import Known, list_known
from dali_pipes.stages import production as make
from gpu_aug import CenterCrop, ColorJitter, Normalize, RandomResizedCrop, Recipe, Resize, Views
from readers import open_dataset
from readers.order.buckets import Buckets
from tests.support.jpeg_kinds import with_restarts
from tests.support.loaders import loader_maker
from tests.support.same_batches import assert_same

NUM_IMAGES = 16
CROP = RandomResizedCrop(32, scale=(0.05, 0.5))
JITTER = Recipe([CROP, ColorJitter(0.4, 0.4, 0.4), Normalize()])
WRONG_END = "JPEG (damaged: the scan ends too early)"
VIEWS = Views([Recipe([CROP]), Recipe([CenterCrop(20)])])


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder: what the loaders of other tests keep is not known."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path_factory.mktemp("cache")))


class Calls:
    """How the files of each batch were decoded."""

    def __init__(self) -> None:
        self.judged = self.begun_inside = 0
        self._cache = cast(
            Any, _render_rows
        )._cache  # the loader asks whether the function is stored

    def __call__(self, encoded: Any, *others: Any) -> None:
        """Count, and decode."""
        self.judged += int((encoded["judge"] != 0).sum())
        known = (encoded["judge"] == 0) & (encoded["num_seek_points"] > 0)
        self.begun_inside += int(known.sum())
        _render_rows(encoded, *others)

    def take(self) -> tuple[int, int]:
        """Files that were read as a whole, and files that were begun at a checkpoint, since this was asked last."""
        found = (self.judged, self.begun_inside)
        self.judged = self.begun_inside = 0
        return found


_render_rows = jpeg_batch_kernel.render_rows


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Counts how files are decoded."""
    found = Calls()
    monkeypatch.setattr(jpeg_batch_kernel, "render_rows", found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Pictures of several shapes and samplings; one is a PNG, one progressive, some are turned."""
    root = tmp_path_factory.mktemp("pictures")
    for number in range(NUM_IMAGES):
        exif = Image.Exif()
        exif[274] = 1 + number % 8
        data = jpeg(90 + 7 * number, 230 - 6 * number, seed=number)
        with Image.open(io.BytesIO(data)) as picture:
            options: dict[str, Any] = {"quality": 92, "subsampling": number % 3, "exif": exif}
            suffix = "png" if number == 3 else "jpg"
            picture.save(root / f"{number:02d}.{suffix}", progressive=number == 5, **options)
    return root


load = loader_maker(JITTER, num_threads=2, engine="fused", dtype=torch.float32, seed=3)


def epochs(loader: Loader, count: int = 3) -> Iterator[list[Batch]]:
    """The batches of some epochs."""
    with loader:
        for _ in range(count):
            yield list(loader)


def forget_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have loaders of this process remember no file."""
    monkeypatch.setattr(make, "open_seek_points", lambda _: SeekPointMemory(limit_bytes=0))


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        (JITTER, {}),
        (VIEWS, {}),
        (JITTER, {"execution": Execution(decode="fast")}),
        (
            lambda size: Recipe([Resize(size)]),
            {"buckets": Buckets([(48, 64), (64, 48)]), "last_batch": "partial"},
        ),
    ],
    ids=["crops", "views", "fast", "buckets"],
)
def test_later_epochs_are_those_of_a_loader_that_forgets(
    folder: Path, monkeypatch: pytest.MonkeyPatch, calls: Calls, recipe: Any, options: Any
) -> None:
    """Each file is read as a whole once, and the batches are the same to the bit."""
    dataset = open_dataset(folder)
    counts, made = [], []
    for batches in epochs(load(dataset, recipe, **options)):
        counts.append(calls.take())
        made.append(batches)
    assert counts[0][0] > NUM_IMAGES // 2
    assert counts[0][1] == 0
    assert counts[2][1] > counts[0][0] // 2

    forget_all(monkeypatch)
    for batches, expected in zip(made, epochs(load(dataset, recipe, **options)), strict=True):
        assert_same(batches, expected)
        assert calls.take()[1] == 0


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 8, "num_threads": 1},
        pytest.param({"execution": Execution(helper_process=True)}, marks=pytest.mark.long),
    ],
)
def test_whoever_makes_the_batches(folder: Path, options: dict[str, Any]) -> None:
    """Other batches, threads and a process of its own give the same pictures in the second epoch."""
    *_, expected = epochs(load(open_dataset(folder), num_threads=2), 2)
    *_, found = epochs(load(open_dataset(folder), **options), 2)

    pictures = [torch.cat([batch.images for batch in batches]) for batches in (found, expected)]
    assert torch.equal(*pictures)


def test_a_file_that_changes_is_read_again(
    tmp_path: Path, jpeg: Callable[..., bytes], calls: Calls
) -> None:
    """The pictures of an epoch are those of the files that it reads."""
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(400, 500, seed=number))
    recipe = Recipe([CenterCrop(40)])
    loader = load(open_dataset(tmp_path), recipe, batch_size=2, shuffle="none", dtype=torch.uint8)
    made = epochs(loader, 3)
    next(made)
    next(made)
    assert calls.take() == (2, 2)

    changed = jpeg(400, 500, seed=9)
    (tmp_path / "1.jpg").write_bytes(changed)
    (batch,) = next(made)

    assert calls.take() == (1, 1)
    with Image.open(io.BytesIO(changed)) as picture:
        cut = np.asarray(picture)[180:220, 230:270]
    np.testing.assert_array_equal(batch.images[1].permute(1, 2, 0).numpy(), cut)


def test_wrong_checkpoints_do_no_harm(
    folder: Path, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    """A file that does not decode from its checkpoints is left to the decoder of other images."""

    class Wrong(SeekPointMemory):
        """Gives places outside the files."""

        def look_up(self, indices: Any, digests: Any) -> Known:
            found = super().look_up(indices, digests).held
            for number, one in enumerate(found):
                if one is not None:
                    rows = one.rows.copy()
                    rows["bit"] = 0xFFFFFFFF
                    found[number] = one._replace(rows=rows)
            return list_known(found)

    *_, expected = epochs(load(open_dataset(folder)), 2)
    monkeypatch.setattr(make, "open_seek_points", lambda _: Wrong())
    calls.take()
    *_, found = epochs(load(open_dataset(folder)), 2)

    assert_same(found, expected)
    assert calls.take()[0] == NUM_IMAGES + 1  # the PNG is never known


def test_a_verdict_does_not_depend_on_the_crop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jpeg: Callable[..., bytes]
) -> None:
    """A file whose end is damaged is left to OpenCV even where its upper half is all that is needed."""
    data = jpeg(200, 160)
    (tmp_path / "damaged.jpg").write_bytes(data[:-500] + data[-2:])
    recipe = Recipe([RandomResizedCrop(24, scale=(0.02, 0.02))])
    for forgets in (False, True):
        if forgets:
            forget_all(monkeypatch)
        with load(open_dataset(tmp_path), recipe, batch_size=1) as loader:
            for _ in range(4):
                list(loader)
                assert list(loader.stats().whole_images) == [WRONG_END]


def test_files_with_short_intervals_need_no_checkpoints(
    tmp_path: Path, folder: Path, calls: Calls
) -> None:
    """They are read as a whole once, too, and then jumped through without checkpoints."""
    with tarfile.open(tmp_path / "marked.tar", "w") as archive:
        for path in sorted(folder.glob("*.jpg"))[:3]:
            data = with_restarts(path.read_bytes())
            member = tarfile.TarInfo(path.name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    dataset = open_dataset(tmp_path / "marked.tar")
    for number, _ in enumerate(epochs(load(dataset, batch_size=3))):
        assert calls.take() == (3 if number == 0 else 0, 0)
