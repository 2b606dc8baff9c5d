"""Depth and optical flow: read as their formats define them, moved as the image, vectors turned and scaled with it."""

import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as tv

from dali_pipes import BadSampleError, Flow, ImageOptions, Loader, LoaderError, NumberMap
from gpu_aug import (
    CenterCrop,
    CoarseDropout,
    ColorJitter,
    ElasticTransform,
    HorizontalFlip,
    MixUp,
    RandomAffine,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotate90,
    RandomRotation,
    Recipe,
    RecipeError,
    Resize,
    VerticalFlip,
)
from gpu_aug.targets import maps as map_math
from readers import open_dataset
from tests.support.kinds import by_opencv, noise, npy, tiff, write_tar

SIZE = (60, 80)
PHOTO = by_opencv("png", noise(3, "uint8", SIZE))


def flo(flow: np.ndarray) -> bytes:
    """Middlebury's format, by its definition."""
    height, width = flow.shape[:2]
    return b"PIEH" + struct.pack("<ii", width, height) + flow.astype("<f4").tobytes()


def pfm(values: np.ndarray, order: str = "<") -> bytes:
    """A PFM: rows from the bottom, by its definition."""
    letter = "F" if values.ndim == 3 else "f"
    head = f"P{letter}\n{values.shape[1]} {values.shape[0]}\n{'-' * (order == '<')}1.0\n"
    return head.encode() + values[::-1].astype(f"{order}f4").tobytes()


def kitti(flow: np.ndarray, known: np.ndarray) -> bytes:
    """KITTI's PNG, by its development kit's definition, written by OpenCV (blue first)."""
    stored = np.zeros((*flow.shape[:2], 3), np.uint16)
    stored[..., 2] = flow[..., 0] * 64 + 2**15
    stored[..., 1] = flow[..., 1] * 64 + 2**15
    stored[..., 0] = known
    return bytes(cv2.imencode(".png", stored)[1])


def loader(folder: Path, samples: list[dict[str, bytes]], recipe: Recipe, **options: Any) -> Loader:
    data = open_dataset(write_tar(folder / "a.tar", samples))
    given = {"batch_size": len(samples), "device": "cpu", "shuffle": "none", "num_threads": 2}
    return Loader(data, recipe, **(given | options))


WHOLE = Recipe([CenterCrop(SIZE)])
FLOW = np.round(noise(2, "float32", SIZE) / 32, 0) / 2
KNOWN = noise(1, "uint8", SIZE) > 60
DEPTH = noise(1, "uint16", SIZE)
FLOWS = {
    "flo": (flo(FLOW), None),
    "pfm": (pfm(np.dstack([FLOW, np.zeros(SIZE)])), None),
    "npy": (npy(FLOW), None),
    "tif": (tiff(FLOW), None),
    "png": (kitti(FLOW, KNOWN), "kitti"),
}
DEPTHS = {
    "png": (by_opencv("png", DEPTH), DEPTH),
    "tif": (tiff(DEPTH.astype(np.float32)), DEPTH),
    "npy": (npy(DEPTH.astype(np.float32)), DEPTH),
    "pfm": (pfm(DEPTH.astype(np.float32)), DEPTH),
    "big.pfm": (pfm(DEPTH.astype(np.float32), ">"), DEPTH),
    "8.png": (by_opencv("png", noise(1, "uint8", SIZE)), noise(1, "uint8", SIZE)),
}


@pytest.mark.parametrize("ending", FLOWS)
def test_flow_is_what_was_written(tmp_path: Path, ending: str) -> None:
    """To the right first, then down, in pixels; NaN where it is not known."""
    data, form = FLOWS[ending]
    maps = {"flow": Flow(f"flow.{ending}", form)}
    batch = loader(
        tmp_path, [{"jpg": PHOTO, f"flow.{ending}": data}], WHOLE, images=ImageOptions(maps=maps)
    ).peek()

    expected = np.where(KNOWN[..., None], FLOW, np.nan) if form else FLOW
    assert batch["flow"].dtype == torch.float32
    assert np.array_equal(batch["flow"][0].permute(1, 2, 0), expected, equal_nan=True)


@pytest.mark.parametrize("ending", DEPTHS)
def test_depth_is_what_was_written(tmp_path: Path, ending: str) -> None:
    """Divided by the scale that is given; 0 is not known."""
    data, stored = DEPTHS[ending]
    stored = stored.copy()
    maps = {"depth": NumberMap(f"depth.{ending}", scale=256)}
    batch = loader(
        tmp_path, [{"jpg": PHOTO, f"depth.{ending}": data}], WHOLE, images=ImageOptions(maps=maps)
    ).peek()

    expected = np.where(stored == 0, np.nan, stored / np.float32(256))
    assert batch["depth"].shape == (1, 1, *SIZE)
    assert np.array_equal(batch["depth"][0, 0], expected.astype(np.float32), equal_nan=True)


def coordinates() -> np.ndarray:
    """Of each pixel its centre, x and y."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    return np.dstack([columns, rows]).astype(np.float32)


def smooth_flow() -> np.ndarray:
    """A flow of some pixels that changes slowly."""
    x, y = coordinates().transpose(2, 0, 1)
    return np.dstack([4 + x / 20 + np.sin(y / 25), -3 + y / 30 + np.cos(x / 30)]).astype(np.float32)


def at(image: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Bilinear values of [C, H, W] at continuous points, [C, n]; NaN outside."""
    height, width = image.shape[1:]
    grid = torch.stack([2 * x / width - 1, 2 * y / height - 1], dim=-1)[None, None]
    found = torch.nn.functional.grid_sample(image[None], grid, align_corners=False)[0, :, 0]
    inside = (x >= 2) & (y >= 2) & (x <= width - 2) & (y <= height - 2)
    return torch.where(inside, found, torch.nan)


MOVES = {
    "crop": [RandomResizedCrop((48, 64), scale=(0.3, 0.6))],
    "stretch": [Resize((90, 60))],
    "flips": [CenterCrop(SIZE), HorizontalFlip(1.0), VerticalFlip(0.5)],
    "turns": [CenterCrop((60, 60)), RandomRotate90(1.0)],
    "rotation": [CenterCrop(SIZE), RandomRotation(40)],
    "affine": [CenterCrop(SIZE), RandomAffine(30, (0.1, 0.1), (0.7, 1.4), 15)],
    "all": [
        RandomResizedCrop((48, 64), scale=(0.5, 0.9)),
        HorizontalFlip(0.5),
        RandomRotation(20),
        RandomAffine(10, scale=(0.9, 1.2)),
    ],
}


def errors(folder: Path, recipe: Recipe, engine: Any) -> torch.Tensor:
    """How far, in source pixels, the end of each vector is from where it must be, by the coordinates of two frames.

    Both frames are pictures of their own coordinates, so that each pixel of the result says where it comes from. A
    vector v at q must lead from what is seen at q, s, to s + flow(s): the second frame shows that at q + v.
    """
    field = smooth_flow()
    sample = {"npy": npy(coordinates()), "flow.flo": flo(field)}
    images = ImageOptions(
        channels=2, depth="float32", fields="npy", maps={"flow": Flow("flow.flo")}
    )
    made = loader(folder, [sample] * 4, recipe, images=images, seed=5, engine=engine)
    batch = made.peek()
    found = []
    for frame, flow in zip(batch.images, batch["flow"], strict=True):
        rows, columns = torch.meshgrid(
            *(torch.arange(side) + 0.5 for side in flow.shape[1:]), indexing="ij"
        )
        x, y = (columns + flow[0]).flatten(), (rows + flow[1]).flatten()
        source = at(frame, columns.flatten(), rows.flatten())
        target = source + at(torch.from_numpy(field).permute(2, 0, 1), *source)
        shown = at(frame, x, y)
        beside = flow[:1].isnan().float()[None]
        mixed = torch.nn.functional.max_pool2d(beside, 5, stride=1, padding=2)[
            0
        ]  # with what lies beside
        seen = (at(mixed, x, y)[0] == 0) & (mixed.flatten() == 0)
        found.append((shown - target).norm(dim=0)[seen])
    together = torch.cat(found)
    return together[together.isfinite()]


@pytest.mark.parametrize("engine", ["kornia", "fused"])
@pytest.mark.parametrize("name", MOVES)
def test_vectors_lead_where_the_second_frame_shows_the_point(
    tmp_path: Path, name: str, engine: Any
) -> None:
    """Within the nearest pixel's share of a flow that changes by 0.1 per pixel; the bare vectors are far off."""
    found = errors(tmp_path, Recipe(MOVES[name]), engine)

    assert len(found) > 1500
    assert found.max() < 0.35


@pytest.mark.parametrize("name", MOVES)
def test_vectors_that_were_not_turned_are_noticed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comparison fails if they are only moved."""
    monkeypatch.setattr(map_math.np, "einsum", lambda _how, _linear, vectors: vectors)
    assert errors(tmp_path, Recipe(MOVES[name]), "fused").median() > 0.5


def test_maps_move_as_masks_and_as_torchvision_moves_them(tmp_path: Path) -> None:
    """Nearest, NaN beside the image, whatever is done to colours or painted over."""
    depth = noise(1, "uint16", SIZE) // 2 + 1
    sample = {
        "jpg": PHOTO,
        "depth.png": by_opencv("png", depth),
        "mask.png": by_opencv("png", (depth >> 8).astype(np.uint8)),
    }
    recipe = Recipe(
        [CenterCrop((70, 70)), RandomRotation(30), ColorJitter(0.3), CoarseDropout(p=1.0)]
    )
    batch = loader(
        tmp_path,
        [sample] * 3,
        recipe,
        images=ImageOptions(maps={"depth": NumberMap("depth.png", scale=1)}),
    ).peek()

    assert batch.masks is not None
    known = batch["depth"][:, 0].isfinite()
    assert 0.3 < known.float().mean() < 0.95
    assert torch.equal((batch["depth"][:, 0][known].long() >> 8), batch.masks[known])
    flipped = loader(
        tmp_path,
        [sample],
        Recipe([CenterCrop(SIZE), HorizontalFlip(1.0)]),
        images=ImageOptions(maps={"depth": NumberMap("depth.png", scale=2)}),
    ).peek()
    expected = tv.horizontal_flip(torch.from_numpy(depth.astype(np.float32) / 2))
    assert torch.equal(flipped["depth"][0, 0], expected)


BAD = {
    "missing": ({}, "the field 'depth.png' is missing; the sample has jpg"),
    "size": (
        {"depth.png": by_opencv("png", noise(1))},
        "the field 'depth.png': it must be as large as the upright image, 60x80, got 14x18",
    ),
    "colours": (
        {"depth.png": PHOTO},
        "the field 'depth.png': png of 60x80x3, but channels=1 are asked for",
    ),
    "damaged": ({"depth.png": b"nothing"}, "the field 'depth.png': not an image"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_sample_with_a_bad_map_is_bad(tmp_path: Path, case: str) -> None:
    """It is named with the reason, and its neighbour is not touched."""
    change, sentence = BAD[case]
    sound = {"jpg": PHOTO, "depth.png": DEPTHS["png"][0]}
    maps = {"depth": NumberMap("depth.png", scale=256)}
    made = loader(
        tmp_path,
        [{"jpg": PHOTO, **change}, sound],
        WHOLE,
        images=ImageOptions(maps=maps),
        on_bad_sample="skip",
    )
    [batch] = made

    assert (batch.indices.tolist(), len(batch["depth"])) == ([1], 1)
    assert sentence in made.bad_samples[0].reason
    with pytest.raises(BadSampleError):
        loader(
            tmp_path, [{"jpg": PHOTO, **change}, sound], WHOLE, images=ImageOptions(maps=maps)
        ).peek()


@pytest.mark.parametrize(
    ("ending", "data", "sentence"),
    [
        ("flo", flo(FLOW)[:-4], "a file of .* bytes whose header says 60x80: truncated or damaged"),
        ("flo", b"PIEH", "ends within its header"),
        ("pfm", pfm(np.dstack([FLOW, FLOW]))[:-1], "a PFM .*header cannot be read|truncated or damaged"),
        ("npy", npy(FLOW.astype(np.int16)), "flow must be floats, got int16"),
        ("npy", npy(FLOW[..., :1]), "but channels=2 are asked for"),
    ],
)  # fmt: skip
def test_damaged_flow_is_bad(tmp_path: Path, ending: str, data: bytes, sentence: str) -> None:
    """One sentence."""
    maps = {"flow": Flow(f"flow.{ending}")}
    with pytest.raises(BadSampleError, match=sentence):
        loader(
            tmp_path,
            [{"jpg": PHOTO, f"flow.{ending}": data}],
            WHOLE,
            images=ImageOptions(maps=maps),
        ).peek()


def test_what_cannot_move_maps_is_refused_by_name(tmp_path: Path) -> None:
    """When the loader is made: mixing for all maps, what bends the picture for vectors."""
    samples = [{"jpg": PHOTO, "d.png": DEPTHS["png"][0], "f.flo": b""}]
    depth, flow = {"d": NumberMap("d.png", scale=1)}, {"f": Flow("f.flo")}
    for operation, maps, name in (
        (MixUp(num_classes=2), depth, "MixUp cannot be done with maps"),
        (RandomPerspective(), flow, "RandomPerspective cannot be done with flow"),
        (ElasticTransform(), flow, "ElasticTransform cannot be done with flow"),
    ):
        with pytest.raises(RecipeError, match=name):
            loader(
                tmp_path,
                samples,
                Recipe([CenterCrop(8), operation]),
                images=ImageOptions(maps=maps),
            )
    loader(
        tmp_path,
        samples,
        Recipe([CenterCrop(8), RandomPerspective()]),
        images=ImageOptions(maps=depth),
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Flow("flow.png"), "may be KITTI's or a picture of colours; give format='kitti'"),
        (lambda: Flow("flow.png", format="hd1k"), "allowed are 'kitti', None"),
        (lambda: Flow(""), "give the name of a field"),
        (lambda: NumberMap("d.png", scale=0), "give a number above 0"),
        (lambda: NumberMap(3, scale=1), "give the name of a field"),
    ],
)
def test_descriptions_that_cannot_work_are_refused(make: Any, sentence: str) -> None:
    """With what is allowed."""
    with pytest.raises(LoaderError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("maps", "sentence"),
    [
        (["d.png"], "give a dictionary"),
        ({"labels": NumberMap("d.png", scale=1)}, "batch.labels is something else"),
        ({"d": "d.png"}, r"give NumberMap\(field, scale=...\) or Flow\(field\)"),
    ],
)
def test_maps_that_cannot_work_are_refused(tmp_path: Path, maps: Any, sentence: str) -> None:
    """With what is allowed."""
    with pytest.raises(LoaderError, match=sentence):
        loader(tmp_path, [{"jpg": PHOTO}], WHOLE, images=ImageOptions(maps=maps))
