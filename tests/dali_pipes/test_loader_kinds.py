"""Loaders of other images than one RGB image of 8 bits: channels, depth, and several images of a sample."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import (
    BadSampleError,
    Clips,
    Execution,
    ImageOptions,
    Loader,
    LoaderError,
    NumberMap,
)
from gpu_aug import (
    CenterCrop,
    HorizontalFlip,
    Hue,
    Normalize,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    RecipeError,
    Views,
    apply,
)
from readers import open_dataset
from tests.support.kinds import by_opencv, noise, npy, tiff, write_tar
from tests.support.loaders import loader_maker
from tests.support.videos import pan, write_video

RECIPE = Recipe([RandomResizedCrop(12), HorizontalFlip(), RandomRotation(20), Normalize(0.5, 0.25)])
NUM = 6


def dataset(folder: Path, *samples: Mapping[str, bytes]) -> Any:
    return open_dataset(write_tar(folder / "a.tar", samples))


loader = loader_maker(RECIPE, batch_size=3, num_threads=2)


FIVE = [noise(5, seed=seed) for seed in range(NUM)]
GRAY = [noise(1, seed=seed) for seed in range(NUM)]
FLOATS = [noise(2, "float32", seed=seed) for seed in range(NUM)]
KINDS = {
    "tif": ([tiff(one) for one in FIVE], FIVE, {"images": ImageOptions(channels=5, depth=16)}),
    "png": (
        [by_opencv("png", one) for one in GRAY],
        GRAY,
        {"images": ImageOptions(channels=1, depth=16)},
    ),
    "npy": (
        [npy(one) for one in FLOATS],
        FLOATS,
        {"images": ImageOptions(channels=2, depth="float32")},
    ),
}


@pytest.mark.parametrize("engine", ["fused", "kornia", "albumentations"])
@pytest.mark.parametrize("field", KINDS)
def test_batches_are_what_apply_makes_of_the_decoded_images(
    tmp_path: Path, field: str, engine: Any
) -> None:
    """With the same draws, whatever the engine; another epoch is noticed."""
    encoded, pixels, options = KINDS[field]
    kind = {name: getattr(options["images"], name) for name in ("channels", "depth")}
    data = dataset(tmp_path, *({field: one} for one in encoded))
    made = loader(data, engine=engine, seed=3, images=ImageOptions(fields=field, **kind))
    for epoch in (0, 1):
        batches = list(made)
        indices = [int(index) for batch in batches for index in batch.indices]
        images = torch.cat([batch.images for batch in batches])
        samples = [{"image": pixels[index]} for index in indices]
        drawn = {"seed": 3, "epoch": epoch, "indices": indices, "engine": "kornia"}
        expected = torch.stack([one["image"] for one in apply(RECIPE, samples, **drawn, **kind)])
        scale = 1 if kind["depth"] == 16 else 1000

        assert images.shape == (NUM, kind["channels"], 12, 12)
        assert (images - expected).abs().max() / scale < 1e-4
        other = apply(RECIPE, samples, **(drawn | {"epoch": epoch + 1}), **kind)
        assert (images[0] - other[0]["image"]).abs().max() / scale > 0.1


def test_nothing_but_the_sample_decides(tmp_path: Path) -> None:
    """Threads, batch size, layout and a resumed run give the same images."""
    data = dataset(tmp_path, *({"tif": tiff(one)} for one in FIVE))
    kind: dict[str, Any] = {"images": ImageOptions(channels=5, depth=16)}

    def images(made: Loader) -> torch.Tensor:
        with made:
            return torch.cat([batch.images for batch in made])

    expected = images(loader(data, **kind))
    assert torch.equal(images(loader(data, batch_size=2, num_threads=1, **kind)), expected)
    assert torch.allclose(
        images(loader(data, execution=Execution(channels_last=False), **kind)), expected
    )
    first = loader(data, **kind)
    next(iter(first))
    second = loader(data, batch_size=1, **kind)
    second.load_state_dict(first.state_dict())
    assert torch.equal(images(second), expected[3:])


def test_gray_images_of_a_folder(tmp_path: Path) -> None:
    """8 and 16 bits, uint8 where asked for; canvases of several sizes."""
    (tmp_path / "a").mkdir()
    for number in range(3):
        (tmp_path / "a" / f"{number}.png").write_bytes(
            by_opencv("png", noise(1, "uint8", (14 + number, 18)))
        )
    made = loader(
        open_dataset(tmp_path),
        Recipe([HorizontalFlip(0), CenterCrop(8)]),
        images=ImageOptions(channels=1),
        shuffle="none",
        dtype=torch.uint8,
    )
    [batch] = made

    for number, image in enumerate(batch.images):
        pixels = noise(1, "uint8", (14 + number, 18))
        top = round((6 + number) / 2)
        assert np.array_equal(image[0], pixels[top : top + 8, 5:13])


STEREO = [
    {
        "left.png": by_opencv("png", noise(3, "uint8", seed=seed)),
        "right.png": by_opencv("png", noise(3, "uint8", seed=seed + 50)),
        "mask.png": by_opencv("png", noise(1, "uint8", seed=seed)),
        "cls": b"1",
    }
    for seed in range(NUM)
]


@pytest.mark.parametrize("engine", ["fused", "kornia", "albumentations"])
def test_images_of_a_sample_get_the_same_draws(tmp_path: Path, engine: Any) -> None:
    """Each is what a loader of it alone gives, to the bit; the first is batch.images, and the mask moves with them."""
    data = dataset(tmp_path, *STEREO)
    both = loader(
        data, images=ImageOptions(fields={"left": "left.png", "right": "right.png"}), engine=engine
    )
    alone = {
        name: loader(data, images=ImageOptions(fields=f"{name}.png"), engine=engine)
        for name in ("left", "right")
    }
    for batch, left, right in zip(both, alone["left"], alone["right"], strict=True):
        assert torch.equal(batch.images, left.images)
        assert torch.equal(batch["left"], left.images)
        assert torch.equal(batch["right"], right.images)
        assert not torch.equal(batch["left"], batch["right"])
        assert batch.masks is not None
        assert torch.equal(batch.masks, right.masks)
        assert batch["right"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"right.png": by_opencv("png", noise(3, "uint8", (14, 17)))},
            "right: it is 14x17, but left is 14x18: the images of a sample must have one size",
        ),
        ({"right.png": by_opencv("png", noise(3, "uint8"))[:200]}, "right: .*truncated or damaged"),
        ({"right.png": b"nothing"}, "right: not an image"),
        (
            {"right.png": None},
            "the field 'right.png' is missing; the sample has left.png, mask.png, cls",
        ),
    ],
)
def test_a_sample_with_a_bad_image_is_bad_and_its_neighbours_are_not(
    tmp_path: Path, change: dict[str, bytes | None], sentence: str
) -> None:
    """It is named with the reason, and left out if that is asked for."""
    changed = {name: data for name, data in (STEREO[1] | change).items() if data is not None}
    data = dataset(tmp_path, STEREO[0], changed, STEREO[2])
    options = {
        "images": ImageOptions(fields={"left": "left.png", "right": "right.png"}),
        "shuffle": "none",
    }
    sound = [loader(dataset(tmp_path, *STEREO[:3]), **options).peek()]
    data = dataset(tmp_path, STEREO[0], changed, STEREO[2])

    with pytest.raises(BadSampleError, match=sentence):
        loader(data, **options).peek()
    made = loader(data, on_bad_sample="skip", **options)
    [batch] = made
    assert batch.indices.tolist() == [0, 2]
    assert torch.equal(batch["right"], sound[0]["right"][[0, 2]])
    assert len(made.bad_samples) == 1
    replaced = loader(data, on_bad_sample="replace", **options)
    assert next(iter(replaced)).indices[1] in (0, 2)


def test_images_of_another_kind_are_bad_samples(tmp_path: Path) -> None:
    """One of RGB and one of 8 bits among gray ones of 16: what each is, and what is asked for."""
    encoded = [
        by_opencv("png", noise(1)),
        by_opencv("png", noise(3)),
        by_opencv("png", noise(1, "uint8")),
    ]
    data = dataset(tmp_path, *({"png": one} for one in encoded))
    made = loader(
        data,
        images=ImageOptions(channels=1, depth=16),
        on_bad_sample="skip",
        max_bad_samples=2,
        shuffle="none",
    )
    [batch] = made

    assert batch.indices.tolist() == [0]
    assert [record.reason for record in made.bad_samples] == [
        "png with channels=3 of uint16, but channels=1 of uint16 are asked for (depth=16)",
        "png with channels=1 of uint8, but channels=1 of uint16 are asked for (depth=16)",
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"images": ImageOptions(depth=16), "dtype": torch.uint8, "recipe": Recipe([CenterCrop(8)])}, "cannot hold images of"),
        ({"decoder": "dali", "images": ImageOptions(channels=1)}, "decoder=\"dali\" gives one RGB image of 8 bits, and asked for is gray"),
        ({"execution": Execution(decode="fast"), "images": ImageOptions(depth=16)}, 'decode="fast" is for one RGB image of 8 bits'),
        ({"images": ImageOptions(fields=["left.png", "cls"]), "fields": ["cls"]}, "'cls' is twice among the names of images"),
        (
            {"images": ImageOptions(fields=["left.png", "right.png"]), "recipe": Views([RECIPE, RECIPE])},
            "is not supported with Views",
        ),
    ],
)  # fmt: skip
def test_arguments_that_cannot_work_are_refused_at_once(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    """With what is allowed."""
    with pytest.raises(LoaderError, match=sentence):
        loader(dataset(tmp_path, *STEREO), **options)


def test_clips_are_rgb_of_8_bits(tmp_path: Path) -> None:
    """Another kind, several images and maps are refused."""
    (tmp_path / "a").mkdir()
    write_video(tmp_path / "a" / "0.mp4", pan(8, (32, 32), seed=0))
    clips = Clips(open_dataset(tmp_path), num_frames=2, stride=1)
    recipe = Recipe([CenterCrop(16)])
    with pytest.raises(
        LoaderError, match="frames of clips are RGB of 8 bits, and asked for is gray"
    ):
        loader(clips, recipe, images=ImageOptions(channels=1), batch_size=1)
    with pytest.raises(LoaderError, match="maps are not supported for clips"):
        loader(
            clips,
            recipe,
            images=ImageOptions(maps={"d": NumberMap("d.png", scale=1)}),
            batch_size=1,
        )


def test_a_list_of_numpy_files(tmp_path: Path) -> None:
    """Needs no name of a field."""
    for number, one in enumerate(FLOATS):
        np.save(tmp_path / f"{number}.npy", one)
    data = open_dataset(sorted(tmp_path.glob("*.npy")), format="list")
    made = loader(
        data,
        Recipe([CenterCrop((14, 18))]),
        images=ImageOptions(channels=2, depth="float32"),
        shuffle="none",
    )
    images = torch.cat([batch.images for batch in made])
    assert np.array_equal(images.permute(0, 2, 3, 1), np.stack(FLOATS))


def test_operations_that_do_not_take_the_images_are_refused_at_once(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(RecipeError, match="Hue needs RGB images, got channels=1"):
        loader(
            dataset(tmp_path, *STEREO),
            Recipe([CenterCrop(8), Hue()]),
            images=ImageOptions(channels=1),
        )


def test_explain_says_what_is_decoded_and_by_whom(tmp_path: Path) -> None:
    """The kind, the decoder, the canvases, and how the engine goes about it."""
    data = dataset(tmp_path, *STEREO)
    told = loader(
        data,
        decoder="auto",
        images=ImageOptions(channels=4, depth=16, fields=["left.png", "right.png"]),
    ).explain()

    assert "images: left.png, right.png, each RGBA of 16 bits" in told
    assert "decoder cpu: the other decoders give one RGB image of 8 bits" in told
    assert "-> float32 [12, 12, 4]" in told
    assert "-> float32 [4, 12, 12]" in told
    assert "engine kornia: on a CPU it is the fastest for RGBA of 16 bits" in told
    fused = loader(
        data, images=ImageOptions(channels=4, depth=16, fields="left.png"), engine="fused"
    ).explain()
    assert "engine fused: asked for, and works on three channels at a time" in fused
    assert loader(data).engine == "fused"
