"""Depth cameras of LeRobot datasets in the loader: metres with all bits, moved like the pictures of the other cameras."""

import io
import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dali_pipes import Execution, Loader, LoaderError
from dali_pipes.decode.check import CHECKS
from gpu_aug import (
    HorizontalFlip,
    MixUp,
    RandomCrop,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    Rotate,
)
from readers import SourceError, mix, open_dataset
from readers.video import scan_video
from tests.support.lerobot import DEPTH, TOP, WRIST, Depth, Robot, picture_feature, write_tables
from tests.support.loaders import loader_maker

SIZE = (32, 48)
COUNT = sum(Robot().lengths)
FULL = Recipe([Resize(SIZE)])
LINEAR = {
    "video.depth_min": 0.2,
    "video.depth_max": 5.0,
    "video.shift": 3.5,
    "video.use_log": False,
}
LOG = {"video.depth_min": 0.01, "video.depth_max": 10.0, "video.shift": 3.5, "video.use_log": True}
load = loader_maker(FULL, num_threads=2, last_batch="partial")


def numbers(
    largest: int, size: tuple[int, int] = SIZE, dtype: type[np.generic] = np.uint16
) -> NDArray[Any]:
    """Numbers from 0 to `largest` for every frame, which differ from frame to frame in most pixels."""
    shape = (COUNT, *size)
    made = np.random.default_rng(largest).integers(0, largest + 1, shape)
    made[:, 0, :2] = 0, largest
    return made.astype(dtype)


def metres(codes: NDArray[Any], about: dict[str, Any], bits: int = 12) -> NDArray[np.float64]:
    """Distances of codes, by lerobot's formulas (datasets/depth_utils.py) in float64."""
    low, high, shift = (about[f"video.{one}"] for one in ("depth_min", "depth_max", "shift"))
    part = codes / (2.0**bits - 1)
    if about["video.use_log"]:
        first, last = math.log(low + shift), math.log(high + shift)
        return np.exp(first + part * (last - first)) - shift
    return low + part * (high - low)


def png(pixels: NDArray[Any]) -> bytes:
    """A picture of colours, or of distances of 16 bits, as lerobot writes it."""
    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, "png")
        return file.getvalue()


def tiff(values: NDArray[np.float32]) -> bytes:
    """A picture as lerobot writes distances in floats."""
    with io.BytesIO() as file:
        Image.fromarray(values).save(file, "tiff", compression="raw")
        return file.getvalue()


def robot(**depths: Any) -> Robot:
    """A robot with one camera of pictures and one of distances."""
    return Robot(sizes={TOP: SIZE}, depths={DEPTH: Depth(**depths)})


def in_order(dataset: Any, recipe: Recipe = FULL, **options: Any) -> torch.Tensor:
    """The distances of all samples."""
    options = {"batch_size": 5, "device": "cpu", "num_threads": 2, **options}
    return torch.cat([batch[DEPTH] for batch in Loader.eval(dataset, recipe, **options)])


VIDEOS = {
    "hevc, log": (12, LOG, {}),
    "hevc, linear": (12, LINEAR, {}),
    "hevc with chroma": (12, LOG, {"pixel_format": "yuv420p12le"}),
    "ffv1": (12, LINEAR, {"codec": "ffv1"}),
    "ffv1, 16 bits": (16, LOG, {"codec": "ffv1", "pixel_format": "gray16le"}),
}


@pytest.mark.parametrize("name", VIDEOS)
def test_codes_of_videos_become_metres(name: str, tmp_path: Path) -> None:
    """Every code of every frame is the distance of the formula; the next code is another one."""
    bits, about, how = VIDEOS[name]
    codes = numbers((1 << bits) - 1)
    root = robot(numbers=codes, about=about, **how).write(tmp_path)
    found = in_order(open_dataset(root))
    wanted = metres(codes, about, bits)
    next_code = metres(codes + 1.0, about, bits)

    assert (found.shape, found.dtype) == ((COUNT, 1, 1, *SIZE), torch.float32)
    assert np.abs(found[:, 0, 0].numpy() - wanted).max() < 5e-6
    assert np.abs(found[:, 0, 0].numpy() - next_code).min() > 4e-5
    assert found[:, 0, 0, 0, :2].unique().tolist() == pytest.approx(
        [about["video.depth_min"], about["video.depth_max"]]
    )


TABLES = {
    "millimetres": (numbers(65535), png, {"depth_unit": "mm"}, 1000),
    "unit of integers": (numbers(65535), png, {}, 1000),
    "metres in floats": (
        numbers(9999, dtype=np.float32) / np.float32(777),
        tiff,
        {"depth_unit": "m"},
        1,
    ),
    "millimetres in floats": (numbers(9999, dtype=np.float32), tiff, {"depth_unit": "mm"}, 1000),
}


@pytest.mark.parametrize("name", TABLES)
def test_pictures_in_tables_become_metres(name: str, tmp_path: Path) -> None:
    """All bits are kept, in the unit that info.json states; 0 stays 0."""
    stored, encode, about, divisor = TABLES[name]
    root = robot(numbers=stored, about=about, encode=encode).write(tmp_path)
    found = in_order(open_dataset(root))[:, 0, 0].numpy()

    assert np.abs(found - stored.astype(np.float64) / divisor).max() < 4e-6
    assert (found == 0).any()


def test_inspection_decodes_numbers(tmp_path: Path) -> None:
    """Distances in floats are sound, cut ones are bad with the camera's name, and so are those of another size."""
    stored = numbers(9999, dtype=np.float32)

    def written(values: NDArray[np.float32]) -> bytes:
        index = next(n for n, one in enumerate(stored) if np.array_equal(one, values))
        return {3: tiff(values)[:200], 4: tiff(values[:-1])}.get(index, tiff(values))

    dataset = open_dataset(robot(numbers=stored, encode=written).write(tmp_path))
    errors = [dataset.inspect_sample(one, CHECKS).error for one in dataset.fetch(range(COUNT))]
    loader = load(dataset, on_bad_sample="skip", max_bad_samples=2)

    assert [index for index, error in enumerate(errors) if error] == [3, 4]
    assert str(errors[3]).startswith(DEPTH)
    assert "31x48" in str(errors[4])
    assert sum(len(batch) for batch in loader) == COUNT - 2
    assert sorted(one.index for one in loader.bad_samples) == [3, 4]


def test_windows(tmp_path: Path) -> None:
    """A window holds the maps of its moments, clamped to the episode; pictures and their numbers stay without them."""
    codes = numbers(4095)
    root = robot(numbers=codes, about=LINEAR).write(tmp_path)
    dataset = open_dataset(root, delta_timestamps={DEPTH: [-0.2, 0.0, 0.1]})
    [batch] = load(dataset, batch_size=COUNT, fields=[f"{DEPTH}_is_pad"], shuffle="none")
    single = in_order(open_dataset(root))[:, 0]
    starts = np.repeat([0, 5, 8], Robot().lengths)
    stops = np.repeat([5, 8, 14], Robot().lengths)
    for index in range(COUNT):
        wanted = index + np.array([-2, 0, 1])
        rows = wanted.clip(starts[index], stops[index] - 1)
        assert torch.equal(batch[DEPTH][index], single[rows])
        assert batch[f"{DEPTH}_is_pad"][index].tolist() == (rows != wanted).tolist()

    assert batch.cameras.keys() == {TOP}
    assert batch.images.shape == (COUNT, 1, 3, *SIZE)
    assert (batch.frames.shape, batch.seconds.shape) == ((COUNT, 1), (COUNT, 1))
    assert batch[DEPTH].shape == (COUNT, 3, 1, *SIZE)
    assert f"maps: {DEPTH}" in load(dataset).explain()


def test_distances_move_like_pictures(tmp_path: Path) -> None:
    """Crops and flips are those of the pictures: the pixels of a picture, as a number, are its distances."""
    made = Robot(sizes={TOP: SIZE})
    pictures = made.frames(TOP)
    stored = pictures[..., 0] * np.uint16(256) + pictures[..., 1]
    cameras = {DEPTH: Depth(stored, encode=png).feature, TOP: picture_feature(SIZE)}
    encoded = {TOP: [png(one) for one in pictures], DEPTH: [png(one) for one in stored]}
    write_tables(tmp_path, made.values(), made.lengths, made.files, 10, cameras, {}, encoded)
    recipe = Recipe([RandomCrop((16, 24)), HorizontalFlip()])
    [batch] = load(open_dataset(tmp_path), recipe, batch_size=COUNT, dtype=torch.uint8)
    red, green = batch.images[:, 0, 0].float(), batch.images[:, 0, 1].float()

    assert torch.allclose(batch[DEPTH][:, 0, 0], (256 * red + green) / 1000, atol=1e-5)
    assert not torch.allclose(batch[DEPTH][:, 0, 0].flip(-1), (256 * red + green) / 1000, atol=0.1)


def test_outside_the_picture_nothing_is_known(tmp_path: Path) -> None:
    """A turned map is NaN in its corners and has no mixed distances."""
    root = robot(numbers=numbers(1) * 4095, about=LINEAR).write(tmp_path)
    [batch] = load(
        open_dataset(root), Recipe([Resize(SIZE), Rotate((45, 45), p=1.0)]), batch_size=14
    )
    known = batch[DEPTH].isfinite()

    assert not known[..., [0, 0, -1, -1], [0, -1, 0, -1]].any()
    assert known[..., SIZE[0] // 2, SIZE[1] // 2].all()
    assert {round(one, 4) for one in batch[DEPTH][known].unique().tolist()} == {0.2, 5.0}


@pytest.mark.parametrize("times", [(0.5, 0.5), (2, 3)])
def test_another_size_is_scaled_without_mixing(times: tuple[float, float], tmp_path: Path) -> None:
    """A depth camera of another size gets that of the pictures, by nearest pixels."""
    size = int(SIZE[0] * times[0]), int(SIZE[1] * times[1])
    codes = numbers(4095, size)
    root = robot(numbers=codes, about=LINEAR).write(tmp_path)
    found = in_order(open_dataset(root))[:, 0, 0].numpy()
    rows, columns = (
        ((np.arange(after) + 0.5) * before / after).astype(int)
        for before, after in zip(size, SIZE, strict=True)
    )

    assert np.abs(found - metres(codes[:, rows][:, :, columns], LINEAR)).max() < 3e-6


@pytest.mark.parametrize("helper", [False, pytest.param(True, marks=pytest.mark.long)])
def test_exact_resume(tmp_path: Path, helper: bool) -> None:
    """A run goes on on two ranks with the same crops of the same maps."""
    root = robot(numbers=numbers(4095), about=LOG).write(tmp_path)
    recipe = Recipe([RandomResizedCrop((16, 24)), HorizontalFlip()])
    deltas = {DEPTH: [-0.1, 0.0]}

    def opened() -> Any:
        return open_dataset(root, delta_timestamps=deltas)

    def found(batches: Any) -> dict[int, torch.Tensor]:
        return {
            index: depth
            for batch in batches
            for index, depth in zip(batch.indices.tolist(), batch[DEPTH], strict=True)
        }

    whole = found(load(opened(), recipe, seed=3))
    with load(
        opened(), recipe, batch_size=3, seed=3, execution=Execution(helper_process=helper)
    ) as first:
        parts = found(islice(first, 2))
        state = first.state_dict()
    for rank in range(2):
        second = load(opened(), recipe, batch_size=2, rank=rank, world_size=2, seed=3)
        second.load_state_dict(state)
        parts |= found(second)

    assert parts.keys() == whole.keys() == set(range(COUNT))
    assert all(torch.equal(parts[index], whole[index]) for index in whole)


def test_a_damaged_video_takes_no_neighbours(tmp_path: Path) -> None:
    """Samples whose distances cannot be decoded are bad, or replaced; all others are as without the damage."""
    root = robot(numbers=numbers(4095), about=LOG).write(tmp_path)
    before = in_order(open_dataset(root))
    path = root / f"videos/{DEPTH}/chunk-000/file-001.mp4"
    content = bytearray(path.read_bytes())
    start = int(scan_video(bytes(content)).packet_offsets[2])
    content[start : start + 64] = b"\xff" * 64
    path.write_bytes(content)
    dataset = open_dataset(root)
    loader = load(dataset, on_bad_sample="skip", max_bad_samples=6, shuffle="none")
    found = {i: d for b in loader for i, d in zip(b.indices.tolist(), b[DEPTH], strict=True)}
    bad = {record.index for record in loader.bad_samples}

    assert 1 <= len(bad) < 6
    assert min(bad) >= 8
    assert found.keys() == set(range(COUNT)) - bad
    assert all(torch.equal(found[index], before[index]) for index in found)
    [batch] = load(dataset, on_bad_sample="replace", max_bad_samples=6, batch_size=COUNT)
    for index, depth in zip(batch.indices.tolist(), batch[DEPTH], strict=True):
        assert index not in bad
        assert torch.equal(depth, before[index])


def test_selections_and_mixtures(tmp_path: Path) -> None:
    """Selections and mixtures of datasets with the same cameras give the same maps."""
    root = robot(numbers=numbers(4095), about=LOG).write(tmp_path)
    dataset = open_dataset(root)
    depths = in_order(dataset)

    assert torch.equal(in_order(open_dataset(root, episodes=[1])), depths[5:8])
    assert torch.equal(in_order(dataset.where("label == 'wait'")), depths[5:8])
    [batch] = load(mix([dataset, open_dataset(root, episodes=[2])]), batch_size=20, shuffle="none")
    wanted = depths[[*range(14), *range(8, 14)]]
    for index, depth in zip(batch.indices.tolist(), batch[DEPTH], strict=True):
        assert torch.equal(depth, wanted[index])


def test_camera_recipes(tmp_path: Path) -> None:
    """Distances have the size of the first recipe's pictures, also if those of another camera come first in the data."""
    small = (SIZE[0] // 2, SIZE[1] // 2)
    made = Robot(sizes={TOP: SIZE, WRIST: small}, depths={DEPTH: Depth(numbers(4095), about=LOG)})
    dataset = open_dataset(made.write(tmp_path))
    recipes: Any = {WRIST: Recipe([Resize(small)]), TOP: FULL}

    assert torch.equal(in_order(dataset, recipes), in_order(dataset)[..., 1::2, 1::2])


def test_refused(tmp_path: Path) -> None:
    """Distances without pictures make no batch, and distances of several samples no mixture."""
    root = robot(numbers=numbers(4095), about=LOG).write(tmp_path)

    with pytest.raises(LoaderError, match=f"{DEPTH} all show distances.*take a camera of pictures"):
        load(open_dataset(root, cameras=DEPTH))
    with pytest.raises(RecipeError, match="MixUp cannot be done with maps"):
        load(open_dataset(root), Recipe([Resize(SIZE), MixUp()]))
    with pytest.raises(LoaderError, match=f"are for {DEPTH}, whose distances move with"):
        load(open_dataset(root), {TOP: FULL, DEPTH: FULL})
    for name in (TOP, DEPTH):
        with pytest.raises(LoaderError, match=f"fields= names '{name}', which is a camera"):
            load(open_dataset(root), fields=[name])
    with pytest.raises(LoaderError, match="'action' has no offsets: give delta_timestamps"):
        load(open_dataset(root), fields=["action_is_pad"])
    with pytest.raises(LoaderError, match=f"{DEPTH} is a camera of pictures in some datasets and"):
        load(
            mix(
                [
                    open_dataset(root),
                    open_dataset(root, cameras=DEPTH, rename={TOP: DEPTH, DEPTH: TOP}),
                ]
            )
        )
    [batch] = load(open_dataset(root, cameras=TOP), batch_size=COUNT)
    assert DEPTH not in batch


def test_luma_is_required(tmp_path: Path) -> None:
    """A video of colours, called one of distances, is bad by name."""
    made = robot(numbers=numbers(4095), about=LOG, codec="ffv1", pixel_format="gbrp12le")
    loader = load(open_dataset(made.write(tmp_path)), on_bad_sample="skip", max_bad_samples=14)

    assert not [batch for batch in loader if len(batch)]
    assert "shows distances, but its pixels are gbrp12le" in loader.bad_samples[0].reason


@pytest.mark.parametrize(
    "about",
    [
        {"video.depth_min": 5.0, "video.depth_max": 5.0},
        {"video.depth_min": -4.0, "video.shift": 3.5},
        {"depth_unit": "inch"},
        {"video.depth_max": "far"},
    ],
)
def test_settings_that_define_no_distances(about: dict[str, Any], tmp_path: Path) -> None:
    """They are refused when the dataset is opened, with the camera's name."""
    root = robot(numbers=numbers(4095), about={**LOG, **about}).write(tmp_path)

    with pytest.raises(SourceError, match=DEPTH):
        open_dataset(root)
