"""Applying a recipe to decoded images: forms of images, clips, targets, views and bad samples."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

import gpu_aug
from gpu_aug import (
    D4,
    BoxParams,
    CenterCrop,
    ColorJitter,
    EngineError,
    HorizontalFlip,
    KeypointParams,
    MixUp,
    Normalize,
    RandomAffine,
    RandomApply,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    TargetsError,
    Views,
)
from tests.support.engines import ENGINES

RECIPE = Recipe(
    [
        RandomResizedCrop((40, 48)),
        HorizontalFlip(),
        RandomAffine(15, p=0.5),
        ColorJitter(0.3, 0.3, 0.3, 0.05),
        Normalize(),
    ]
)
FLIP = Recipe([HorizontalFlip(1)])


def picture(seed: int, height: int = 61, width: int = 84) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def only(recipe: Recipe, sample: dict, **options: object) -> dict:
    (result,) = gpu_aug.apply(recipe, [sample], **({"seed": 0} | options))  # type: ignore[arg-type]
    return result


def ramp(side: int = 32) -> dict:
    """A sample of which no two crops are alike."""
    rows, columns = np.mgrid[:side, :side] * (255 / side)
    return {"image": np.stack([rows, columns, rows], axis=2).astype(np.uint8)}


def test_without_an_index_every_call_draws_anew():
    """As the generator of torch goes on, and again from where it is set."""
    recipe = Recipe([RandomResizedCrop(8)])

    def three():
        torch.manual_seed(7)
        return torch.stack([gpu_aug.apply(recipe, [ramp()])[0]["image"] for _ in range(3)])

    first = three()

    assert len(first.unique(dim=0)) == 3
    assert torch.equal(three(), first)
    assert len({only(recipe, ramp())["image"].numpy().tobytes() for _ in range(2)}) == 1


def test_with_an_index_the_draws_are_the_loaders(tmp_path):
    """The same sample, seed and epoch give the same pixels as a loader's batch."""
    from dali_pipes import Loader
    from readers import open_dataset

    pictures = [picture(seed, 50 + seed, 70) for seed in range(4)]
    for number, image in enumerate(pictures):
        (tmp_path / "a").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / "a" / f"{number}.png")

    with Loader(
        open_dataset(tmp_path), RECIPE, batch_size=4, device="cpu", dtype=torch.float32, seed=5
    ) as loader:
        for epoch in range(2):
            [batch] = loader
            indices = batch.indices.tolist()
            results = gpu_aug.apply(
                RECIPE,
                [{"image": pictures[index]} for index in indices],
                seed=5,
                epoch=epoch,
                indices=indices,
            )
            assert torch.equal(torch.stack([one["image"] for one in results]), batch.images)


def test_exact_reaches_the_engine():
    """Two turns are then sampled one by one, as in the other engines."""
    turns = Recipe([Resize((40, 40)), *[RandomAffine((30, 31))] * 2])
    noise = {"image": picture(0, 40, 40)}
    apart = only(turns, noise, engine="kornia")["image"]

    assert (only(turns, noise, exact=True)["image"] - apart).abs().max() < 0.001
    assert (only(turns, noise)["image"] - apart).abs().max() > 0.1


def test_a_result_does_not_depend_on_its_neighbours():
    """Images of several sizes in one call are as each alone, with the same index."""
    samples = [{"image": picture(seed, 50 + 9 * seed, 70)} for seed in range(4)]

    together = gpu_aug.apply(RECIPE, samples, seed=0)

    for number, sample in enumerate(samples):
        alone = only(RECIPE, sample, indices=[number])
        assert (alone["image"] == together[number]["image"]).all()
    assert (together[0]["image"] != only(RECIPE, samples[0], indices=[1])["image"]).any()


def test_the_decode_stage_is_torchvisions_resize():
    """A crop and resize of decoded pixels are those of torchvision, in uint8 and in float32."""
    from torchvision.transforms.v2 import functional as tv

    image = picture(0)
    planar = torch.from_numpy(image).permute(2, 0, 1)
    recipe = Recipe([CenterCrop((41, 40)), Resize((20, 31))])

    eight, floats = only(recipe, {"image": image}), only(recipe, {"image": planar.float() / 255})

    expected = tv.resize(tv.center_crop(planar, [41, 40]), [20, 31])
    assert (eight["image"] * 255).round().sub(expected).abs().max() <= 1
    exact = tv.resize(tv.center_crop(planar.float() / 255, [41, 40]), [20, 31])
    assert (floats["image"] - exact).abs().max() < 1e-6


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "recipe", [FLIP, Recipe([Normalize()]), Recipe([*FLIP.operations, *RECIPE.operations[2:]])]
)
def test_float_images_are_not_rounded(engine, recipe):
    """Whole 1/255 as float give the result of uint8; a value between them stays between."""
    image = picture(1)

    as_bytes = only(recipe, {"image": image}, engine=engine)["image"]
    as_floats = only(recipe, {"image": image.astype(np.float32) / 255}, engine=engine)["image"]
    between = only(recipe, {"image": (image.astype(np.float32) * 0.5) / 255}, engine=engine)[
        "image"
    ]

    assert (as_bytes - as_floats).abs().max() < 1e-4
    if recipe is FLIP:
        expected = image[:, ::-1].transpose(2, 0, 1) * np.float32(0.5) / np.float32(255)
        assert (between.numpy() == expected).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gated_normalize_leaves_the_others_in_unit_range(engine):
    """Images that it does not normalize stay in [0, 1], of uint8 and of float."""
    recipe = Recipe([Resize((8, 8)), RandomApply([Normalize()], p=0.5)])
    for white in (np.full((8, 8, 3), 255, np.uint8), np.ones((8, 8, 3), np.float32)):
        results = gpu_aug.apply(recipe, [{"image": white}] * 6, engine=engine, seed=0)
        assert {round(float(result["image"].max()), 2) for result in results} == {1.0, 2.64}


@pytest.mark.parametrize("rows", [1, 61])
def test_forms_of_images_are_one(rows):
    """Arrays (read-only and mirrored ones too), tensors of both orders, Pillow's and torchvision's images."""
    image = picture(2)[:rows]
    planar = torch.from_numpy(image).permute(2, 0, 1)
    fixed = image.copy()
    fixed.flags.writeable = False
    forms = [
        planar,
        Image.fromarray(image),
        tv_tensors.Image(planar),
        fixed,
        image[::-1, ::-1].copy()[::-1, ::-1],
        *([torch.from_numpy(image)] if rows > 3 else []),  # one row would be a gray image
    ]

    expected = only(FLIP, {"image": image})["image"]

    for form in forms:
        result = only(FLIP, {"image": form})["image"]
        assert torch.equal(result, expected)
        assert (type(result), result.dtype) == (torch.Tensor, torch.float32)


def test_gray_images_become_three_equal_channels():
    """In all their forms."""
    gray = picture(3)[..., 0]
    for form in (gray, gray[..., None], torch.from_numpy(gray)[None], Image.fromarray(gray)):
        result = only(FLIP, {"image": form})["image"]
        assert result.shape == (3, 61, 84)
        assert (result * 255 == torch.from_numpy(gray[:, ::-1].copy())).all()


def test_a_pixel_is_enough():
    """An image of one pixel with a box, a keypoint and a mask passes through a whole recipe."""
    sample = {
        "image": picture(4, 1, 1),
        "mask": np.ones((1, 1), np.uint8),
        "boxes": [[0, 0, 1, 1]],
        "keypoints": [[0.5, 0.5]],
    }
    result = only(RECIPE, sample)
    assert (result["image"].shape, result["mask"].shape) == ((3, 40, 48), (40, 48))


def test_images_of_a_sample_share_their_draws():
    """A clip, a dictionary and a list of images, and the single image, all get the same."""
    image = picture(5)
    for recipe in (RECIPE, Recipe([RandomAffine(20), HorizontalFlip()])):  # one size, and any
        single = only(recipe, {"image": image})["image"]
        clip = only(recipe, {"image": np.stack([image, image, image])})["image"]
        named = only(recipe, {"image": image, "images": {"right": image, "left": image}})
        listed = only(recipe, {"images": [image, np.stack([image, image])]})["images"]

        assert clip.shape == (3, *single.shape)
        assert list(named["images"]) == ["right", "left"]
        for result in (*clip, named["image"], *named["images"].values(), listed[0], *listed[1]):
            assert torch.equal(result, single)


def test_clips_of_several_lengths_are_as_each_alone():
    """Two clips of different lengths and sizes in one call."""
    clips = [
        np.stack([picture(s) for s in range(2)]),
        np.stack([picture(s, 50, 60) for s in range(3)]),
    ]

    results = gpu_aug.apply(RECIPE, [{"image": clip} for clip in clips], seed=0)

    for number, clip in enumerate(clips):
        alone = [only(RECIPE, {"image": frame}, indices=[number])["image"] for frame in clip]
        assert torch.equal(results[number]["image"], torch.stack(alone))


def test_everything_that_was_given_comes_back():
    """Keys, types and what is not ours are kept."""
    recipe = Recipe([Resize((30, 42))], keypoints=KeypointParams(pixel_index=True))
    sample = {
        "image": picture(6),
        "mask": np.full((61, 84), 3, np.uint8),
        "masks": np.full((2, 61, 84), 4, np.uint8),
        "boxes": torch.tensor([[0.0, 0, 42, 61]]),
        "box_labels": ["cat"],
        "keypoints": [[10, 10]],
        "keypoint_labels": [5],
        "label": 7,
        "extra": {"path": "a.jpg"},
    }

    result = only(recipe, sample)

    assert set(result) == set(sample)
    assert [result[key].shape for key in ("mask", "masks")] == [(30, 42), (2, 30, 42)]
    assert (result["masks"] == 4).all()
    assert result["boxes"].tolist() == [[0, 0, 21, 30]]
    torch.testing.assert_close(result["keypoints"], torch.tensor([[5.0, 10 * 30 / 61]]))
    assert result["keypoint_labels"].dtype == torch.int64
    assert (list(result["box_labels"]), result["label"]) == (["cat"], 7)
    assert result["extra"] is sample["extra"]
    assert sample["image"].shape == (61, 84, 3)


def test_masks_that_are_none_stay_none():
    """A key without a value takes nothing of the other key."""
    layers = np.stack([np.full((61, 84), value) for value in (3, 4)])

    result = only(FLIP, {"image": picture(6), "mask": None, "masks": layers})
    single = only(FLIP, {"image": picture(6), "mask": layers[0], "masks": None})

    assert (result["mask"], result["masks"][:, 0, 0].tolist()) == (None, [3, 4])
    assert (single["masks"], single["mask"].unique().tolist()) == (None, [3])


def test_masks_of_one_row_turn():
    """Every turn of a mask of one row or column can be handed over to torch."""
    row = np.arange(5)[None]
    sample = {"image": np.zeros((1, 5, 3), np.uint8), "mask": row}

    turned = [only(Recipe([D4()]), sample, seed=seed)["mask"] for seed in range(30)]

    found = {(*mask.shape, *mask.flatten().tolist()) for mask in turned}
    forward, back = (0, 1, 2, 3, 4), (4, 3, 2, 1, 0)
    assert found == {(h, w, *way) for h, w in ((1, 5), (5, 1)) for way in (forward, back)}


def test_a_mask_beside_masks_of_boxes_is_refused():
    """It could not be told from theirs, and would be dropped with a box."""
    recipe = Recipe([HorizontalFlip()], boxes=BoxParams(instance_masks=True))
    sample = {"image": picture(0), "boxes": [[0, 0, 9, 9]], "mask": np.zeros((61, 84), int)}

    with pytest.raises(TargetsError, match="sample 0: mask cannot be told"):
        only(recipe, sample)


def test_mixed_samples_have_soft_labels():
    """Class numbers become shares where images are mixed."""
    recipe = Recipe([Resize((30, 30)), MixUp(num_classes=3)])
    samples = [{"image": picture(s), "label": s} for s in range(2)]

    one, two = gpu_aug.apply(recipe, samples, seed=0)

    assert one["label"].sum() == pytest.approx(1)
    assert one["label"][2] == two["label"][2] == 0
    plain = [only(Recipe([Resize((30, 30))]), s)["image"] for s in samples]
    lam = one["label"][0]
    torch.testing.assert_close(one["image"], lam * plain[0] + (1 - lam) * plain[1])
    with pytest.raises(TargetsError, match="sample 1: label must be given for all"):
        gpu_aug.apply(recipe, [samples[0], {"image": picture(1)}])
    with pytest.raises(TargetsError, match=r"sample 1: label must have .* \[\], got \[3\]"):
        gpu_aug.apply(recipe, [samples[0], {"image": picture(1), "label": [0.0, 0, 1]}])


def test_views_give_a_result_each():
    """Each view has its own size, boxes and draws."""
    views = Views([Recipe([RandomResizedCrop(32)]), Recipe([RandomResizedCrop(16)])])

    ((large, small),) = gpu_aug.apply(
        views, [{"image": picture(7), "boxes": [[0, 0, 84, 61]]}], seed=0
    )

    assert large["image"].shape == (3, 32, 32)
    assert small["boxes"].tolist() == [[0, 0, 16, 16]]


@pytest.mark.parametrize("recipe", [RECIPE, Views([RECIPE])])
def test_no_samples_give_no_results(recipe):
    assert gpu_aug.apply(recipe, []) == []


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        ({}, "sample 0 must have an image"),
        (3, "sample 0 must be a dictionary, got int"),
        (
            {"image": picture(0), "bboxes": []},
            "keys must be of image, .* got 'bboxes': give it as 'boxes'",
        ),
        (
            {"image": picture(0), "labels": [1]},
            "got 'labels': give labels of boxes as 'box_labels'",
        ),
        ({"image": picture(0), 3: [1]}, "got 3: correct it, or"),
        ({"image": picture(0).astype(np.float32)}, r"float in \[0, 1\], got float from 0 to 255"),
        ({"image": np.full((4, 4, 3), np.nan)}, "got float from nan to nan"),
        ({"image": picture(0).astype(np.int32)}, "must be uint8 or float .* got int32"),
        (
            {"image": np.zeros((8, 9, 4), np.uint8)},
            r"got \[8, 9, 4\]: leave its alpha channel out, or paint",
        ),
        ({"image": np.zeros((3, 8, 9), np.uint8)}, r"shape \[H, W, 3\], .* got \[3, 8, 9\]"),
        ({"image": np.zeros((0, 9, 3), np.uint8)}, "must have the shape"),
        ({"image": "a.jpg"}, "must be uint8 or float"),
        ({"image": Image.new("RGBA", (4, 4))}, "mode 'RGBA': paste it .* leaves transparency out"),
        ({"image": Image.new("I;16", (4, 4))}, "mode 'I;16': divide its values by the largest"),
        ({"image": Image.new("CMYK", (4, 4))}, r"mode 'CMYK': use image\.convert\('RGB'\)"),
        ({"image": picture(0), "mask": np.full((61, 84), 0.3)}, "shares would be lost: choose a t"),
        ({"image": picture(0), "mask": np.full((61, 84), 300.0)}, r"astype\('int64'\) keeps them"),
        (
            {"image": picture(0), "mask": np.zeros((1, 61, 84), int)},
            r"sample 0: mask must be \[H, W\]",
        ),
        (
            {"image": picture(0), "mask": np.zeros((60, 84), int)},
            "sample 0: masks must be as large",
        ),
        ({"image": picture(0), "boxes": [[0, 0, 99, 9]]}, "sample 0: boxes must lie in the image"),
        ({"image": picture(0), "boxes": [[0, 0, np.nan, 9]]}, "sample 0: boxes must be finite"),
        ({"image": picture(0), "images": [picture(0, 5, 5)]}, r"images\[0\] must be as large"),
        ({"image": picture(0), "images": picture(0)}, "images must be a list of images"),
    ],
)
def test_bad_samples_are_named(sample, match):
    """The number of the sample, the key, what was got and what is allowed."""
    with pytest.raises(TargetsError, match=match):
        gpu_aug.apply(FLIP, [sample])


def test_boxes_in_another_form_are_refused():
    """BoundingBoxes of torchvision know their form; the recipe reads another."""
    boxes = tv_tensors.BoundingBoxes([[1, 2, 3, 4]], format="XYWH", canvas_size=(61, 84))
    sample = {"image": picture(0), "boxes": boxes}

    with pytest.raises(TargetsError, match="format, xyxy, got XYWH"):
        only(FLIP, sample)
    result = only(Recipe([HorizontalFlip(1)], boxes=BoxParams(format="xywh")), sample)
    assert result["boxes"].tolist() == [[80, 2, 3, 4]]


def test_wrong_arguments_are_named():
    """The recipe, samples that are no list, numbers, indices that do not match, and the device."""
    samples = [{"image": picture(0)}]
    number = "must be a whole number from 0"
    for options, error, match in (
        ({"seed": 0.5}, RecipeError, number),
        ({"seed": -1}, RecipeError, number),
        ({"epoch": 0.5}, RecipeError, number),
        ({"epoch": True}, RecipeError, number),
        ({"epoch": 1}, RecipeError, "indices must be given with epoch=1"),
        *(
            (
                {"indices": indices},
                TargetsError,
                "one whole number from 0 to 9223372036854775806 per sample",
            )
            for indices in ([0.5], ["a"], [2**70], [-1], [1, 2])
        ),
        ({"device": "gpu"}, EngineError, r"device must be .* got 'gpu'"),
    ):
        with pytest.raises(error, match=match):
            gpu_aug.apply(FLIP, samples, **options)
    lengths = [*samples, {"image": np.stack([picture(0), picture(1)])}]
    for recipe, given, error, match in (
        ([HorizontalFlip()], samples, RecipeError, "recipe must be Recipe or Views, got "),
        (FLIP, samples[0], TargetsError, "put a single one into a list"),
        (Recipe([Resize((9, 9)), MixUp()]), lengths, RecipeError, "equally many images"),
    ):
        with pytest.raises(error, match=match):
            gpu_aug.apply(recipe, given)


@pytest.mark.parametrize("recipe", [Recipe([Normalize()]), Recipe([Resize((6, 7)), Normalize()])])
@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_and_floats_in_one_batch(recipe: Recipe, engine: str) -> None:
    """Images of uint8 and of float32 together come out as each does alone."""
    images = np.random.default_rng(0).integers(0, 256, (2, 9, 8, 3), np.uint8)
    samples = [{"image": images[0]}, {"image": images[1].astype(np.float32) / 255}]

    together = gpu_aug.apply(recipe, samples, engine=engine)

    for sample, result in zip(samples, together, strict=True):
        [alone] = gpu_aug.apply(recipe, [sample], engine=engine)
        np.testing.assert_allclose(result["image"], alone["image"], atol=0.003)
