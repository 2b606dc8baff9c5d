"""Imported pipelines have the pixels of their library: rounding in the middle, Pillow's bicubic, paint, several images."""

from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.autoaugment import _apply_op

from gpu_aug import AlbumentationsTransform, CenterCrop, Recipe, RecipeError, TargetsError, apply
from gpu_aug.convert import convert
from gpu_aug.engines.backends.step import prepare_numpy, prepare_torch
from gpu_aug.ops.color.normalize import ToDtype
from gpu_aug.ops.policy import space as policy_space
from gpu_aug.ops.policy.space import PolicyWarp, choice_params
from tests.support.engines import ENGINES

SIZE = (61, 84)
PIXELS = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
PLANES = torch.from_numpy(PIXELS).permute(2, 0, 1).contiguous()
F32, U8 = torch.float32, torch.uint8
BLUR = v2.GaussianBlur(5, (1.0, 1.0))
BICUBIC = InterpolationMode.BICUBIC


def ours(recipe: Recipe, engine: str, image: Any = PIXELS) -> torch.Tensor:
    """The image after the batch stage of an engine, float32 [3, H, W] in 1/255."""
    recipe = Recipe([CenterCrop(SIZE), *recipe.operations])
    return apply(recipe, [{"image": image}], engine=engine, seed=0)[0]["image"] * 255


ROUND_TRIPS: dict[str, list[Any]] = {
    "ToDtype": [v2.ToImage(), v2.ToDtype(F32, scale=True), BLUR, v2.ToDtype(U8, scale=True)],
    "ConvertImageDtype": [v1.ConvertImageDtype(F32), BLUR, v1.ConvertImageDtype(U8)],
    "ToPILImage": [v1.ConvertImageDtype(F32), BLUR, v1.ToPILImage(), v1.PILToTensor()],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_values_are_rounded_as_by_torchvision(name: str, engine: str) -> None:
    """At most one value in a thousand is beside it, by a step; rounding to nearest would change many."""
    recipe = Recipe.from_torchvision(v2.Compose(ROUND_TRIPS[name]))
    expected = v2.Compose(ROUND_TRIPS[name])(PLANES).float()

    result = ours(recipe, engine)
    nearest = ours(Recipe([*recipe.operations[:-1], ToDtype("uint8")]), engine)

    assert (result - expected).abs().max() < 1.001
    assert ((result - expected).abs() > 0.001).double().mean() < 0.001
    assert ((nearest - expected).abs() > 0.5).double().mean() > 0.03


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rounding", ["nearest", "scaled_floor", "floor"])
def test_8_bit_values_stay(rounding: Any, engine: str) -> None:
    """Each of the 256 levels is kept by every rounding."""
    levels = np.resize(np.arange(256, dtype=np.uint8), (*SIZE, 3)).astype(np.float32) / 255

    result = ours(Recipe([ToDtype("uint8", rounding)]), engine, levels)

    assert result.permute(1, 2, 0).numpy() - levels * 255 == pytest.approx(0, abs=1e-4)


def test_policies_work_behind_a_rounding() -> None:
    """On floats a policy has other rules; behind ToDtype(uint8) images have 8 bits again."""
    to_float = v2.ToDtype(F32, scale=True)
    recipe = Recipe.from_torchvision(
        [v2.ToImage(), to_float, BLUR, v2.ToDtype(U8, scale=True), v2.RandAugment(), to_float]
    )

    assert recipe.operations[1] == ToDtype("uint8", "scaled_floor")
    assert recipe.output == ("ToImage", "float32", "uint8", "float32")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([v2.ToDtype(F32, scale=True), v2.ToDtype(U8)], r"floats in 0\.\.1 with scale=False"),
        (
            [v2.ToDtype(F32), v2.ToDtype(U8, scale=True)],
            r"floats in 0\.\.255 with scale=True; nearest: ToDtype\(torch.uint8, scale=False\)",
        ),
        ([v2.ToDtype(F32), v2.ToPILImage()], r"takes floats in 0\.\.255 for \[0, 1\]"),
        (
            [v2.ToDtype(F32, scale=True), v2.Normalize([0.5], [0.5]), v2.ToDtype(U8, scale=True)],
            "stands after Normalize",
        ),
    ],
    ids=["floats unscaled", "255 scaled", "255 to PIL", "after Normalize"],
)
def test_meaningless_roundings_are_refused(steps: list[Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe.from_torchvision([v2.ToImage(), *steps])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_at_the_end(dtype: torch.dtype) -> None:
    """The result has torchvision's dtype and values; what follows would compute in float32, which the report says."""
    pipeline = v2.Compose([v2.ToImage(), v2.CenterCrop(32), v2.ToDtype(dtype, scale=True)])
    recipe, lines = convert(pipeline)

    result = recipe.transform(seed=0)(PLANES)

    assert result.dtype == dtype
    assert torch.allclose(result.float(), pipeline(PLANES).float(), atol=0.004)
    assert "what follows computes in float32" in lines[-1].note


WARPS = [
    ("ShearX", 0.3),
    ("ShearY", -0.2),
    ("TranslateX", 17.0),
    ("TranslateY", -9.0),
    ("Rotate", 23.0),
]


@pytest.mark.parametrize(("name", "magnitude"), WARPS)
@pytest.mark.parametrize("fill", [None, [102, 0, 51]], ids=["black", "fill"])
def test_bicubic_warps_of_policies_are_pillows(name: str, magnitude: float, fill: Any) -> None:
    """At most one value in a thousand is beside Pillow's, by a step; bilinear values are far from it."""
    chosen = np.array([policy_space.RAND.names.index(name)])
    params = choice_params(
        policy_space.RAND, chosen, np.array([0]), np.array([1.0]), np.array([SIZE]), num_bins=2
    )[0]
    params["matrix"] = policy_space._matrices(
        np.array([name]), np.array([magnitude]), np.array([SIZE])
    )
    operation = PolicyWarp("bicubic", 0.0 if fill is None else (0.4, 0.0, 0.2))

    def by_pillow(mode: InterpolationMode) -> torch.Tensor:
        warped = _apply_op(Image.fromarray(PIXELS), name, magnitude, mode, fill)
        return torch.from_numpy(np.array(warped)).permute(2, 0, 1).float()

    x = PLANES[None].float() / 255
    results = (
        prepare_torch(operation, torch.device("cpu"))(x, params)[0] * 255,
        torch.from_numpy(
            prepare_numpy(operation)(x[0].permute(1, 2, 0).contiguous().numpy(), params, 0) * 255
        ).permute(2, 0, 1),
    )

    for result in results:
        gap = (result - by_pillow(BICUBIC)).abs()
        assert gap.max() < 1.001
        assert (gap > 0.01).double().mean() < 0.001
    if "Translate" not in name:  # by whole pixels
        bilinear = by_pillow(InterpolationMode.BILINEAR)
        assert ((bilinear - by_pillow(BICUBIC)).abs() > 1.001).double().mean() > 0.3


@pytest.mark.parametrize(
    "policy",
    [v1.RandAugment, v1.TrivialAugmentWide, v1.AutoAugment, v2.RandAugment, v2.AugMix],
    ids=lambda policy: policy.__name__,
)
def test_bicubic_policies_are_imported(policy: Any) -> None:
    recipe = Recipe.from_torchvision([policy(interpolation=BICUBIC, fill=[51] * 3)])

    operation: Any
    [operation] = recipe.operations  # a policy rounds by itself
    assert (operation.interpolation, operation.fill) == ("bicubic", 0.2)


@pytest.mark.parametrize(
    "step",
    [
        v1.RandomRotation(15, interpolation=BICUBIC),
        v1.RandomAffine(10, (0.1, 0.1), interpolation=BICUBIC),
        v1.RandomPerspective(p=1.0, interpolation=BICUBIC),
    ],
    ids=lambda step: type(step).__name__,
)
def test_bicubic_warps_of_pillow_images_run_as_they_are(step: Any) -> None:
    """The pixels of torchvision with the same seed."""
    recipe, [line, _] = convert([step, v1.ToTensor()])
    seed = int(recipe.draw(0, 0, np.arange(1), np.array([SIZE])).params[0]["seed"][0])

    result = recipe.transform(seed=0)(Image.fromarray(PIXELS), index=0)

    torch.manual_seed(seed)
    expected = v1.functional.to_tensor(step(Image.fromarray(PIXELS)))
    assert line.outcome == "foreign"
    assert torch.allclose(result, expected, atol=1e-6)


PAINT = [
    A.RandomRain(p=1), A.RandomFog(p=1), A.RandomSnow(p=1), A.RandomShadow(p=1), A.RandomSunFlare(p=1), A.RandomGravel(p=1),
    A.Morphological((2, 2), p=1), A.GridElasticDeform((4, 4), 5, p=1), A.AdditiveNoise("gaussian", "constant", p=1),
    A.CoarseDropout(fill="inpaint_telea", p=1),
]  # fmt: skip


@pytest.mark.parametrize("step", PAINT, ids=lambda step: type(step).__name__)
def test_paint_runs_as_it_is_on_every_engine(step: Any) -> None:
    """The image of Albumentations with the sample's seed, equal on all engines, and another in another epoch."""
    recipe = Recipe.from_albumentations(A.Compose([A.OneOf([step], p=1)]))
    [operation] = recipe.operations[-1].leaves

    results = [ours(recipe, engine) for engine in ENGINES]
    later = apply(recipe, [{"image": PIXELS}], seed=0, epoch=1)[0]["image"] * 255

    assert isinstance(operation, AlbumentationsTransform)
    assert all(torch.equal(result, results[0]) for result in results)
    assert (results[0] - PLANES).abs().max() > 1
    # Morphology of one size draws nothing, and the image is too small for a stone.
    draws = type(step).__name__ not in ("Morphological", "RandomGravel")
    assert torch.equal(later, results[0]) != draws


def test_paint_is_announced_and_not_warned_of() -> None:
    """The report says that it runs on the CPU, and what comes nearest."""
    [line] = convert(A.Compose([A.RandomRain()])).lines

    assert line.outcome == "foreign"
    assert line.note.startswith("runs as it is on the CPU, since it paints rain")
    assert "nearest: A.Spatter(mode='rain')" in line.note


def test_targets_do_not_follow_what_moves_them() -> None:
    """Rain leaves boxes alone; morphology would change them, and is refused with boxes and masks."""
    boxes = A.BboxParams("pascal_voc", label_fields=["labels"])
    rain = Recipe.from_albumentations(
        A.Compose([A.RandomRain(p=1), A.HorizontalFlip(p=0.0)], bbox_params=boxes)
    )
    sample = {"image": PIXELS, "boxes": [[3, 4, 20, 30]], "box_labels": [1]}
    assert apply(rain, [sample], seed=0)[0]["boxes"].tolist() == [[3, 4, 20, 30]]

    with pytest.raises(
        RecipeError, match=r"Morphological: .* boxes and keypoints would not follow"
    ):
        Recipe.from_albumentations(A.Compose([A.Morphological()], bbox_params=boxes))
    morphology = Recipe.from_albumentations(A.Compose([A.Morphological()]))
    with pytest.raises(TargetsError, match="masks cannot follow"):
        apply(morphology, [{"image": PIXELS, "mask": PIXELS[..., 0]}], seed=0)


ADDITIONAL = {"other": "image", "mask2": "mask"}
SEVERAL = [A.RandomCrop(40, 50), A.HorizontalFlip(p=0.5), A.Rotate(20, p=1), A.GaussNoise(p=1)]


def test_additional_targets_get_equal_draws() -> None:
    """Where all are one picture, all results are equal, as in Albumentations; the report says under which key each goes."""
    pipeline = A.Compose([*SEVERAL, A.Normalize()], additional_targets=ADDITIONAL)
    mask = PIXELS[..., 0]
    recipe, lines = convert(pipeline)

    theirs = pipeline(image=PIXELS, other=PIXELS, mask=mask, mask2=mask)
    sample = {"image": PIXELS, "images": {"other": PIXELS}, "mask": mask, "masks": mask[None]}
    [result] = apply(recipe, [sample], seed=0)

    assert np.array_equal(theirs["other"], theirs["image"])
    assert torch.equal(result["images"]["other"], result["image"])
    assert torch.equal(result["masks"][0], result["mask"])
    assert result["image"].shape == (3, 40, 50)
    notes = [line.note for line in lines if "additional_targets" in line.path]
    assert notes[0].startswith("give 'other' as images['other'] of a sample of gpu_aug.apply")
    assert notes[1] == "give 'mask2' as a layer of masks"


@pytest.mark.parametrize("more", ["names", "list"])
def test_further_images_come_back_as_they_were_given(more: str) -> None:
    """A transform returns arrays for arrays, and floats for all if the pipeline makes floats."""
    given = {"names": {"a": PIXELS, "b": PLANES}, "list": [PIXELS, PLANES]}[more]
    recipe = Recipe.from_albumentations(A.Compose(SEVERAL))

    result = recipe.transform(seed=0)({"image": PIXELS, "images": given})

    found = list(result["images"].values()) if more == "names" else result["images"]
    assert type(result["images"]) is type(given)
    assert np.array_equal(found[0], result["image"])
    assert torch.equal(found[1], torch.from_numpy(result["image"]).permute(2, 0, 1))
    assert found[0].dtype == np.uint8
