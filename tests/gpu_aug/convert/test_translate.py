"""Steps of the user's own code: what `translate=` makes of them, the line that errors suggest, and the printed table."""

import re
import types
import warnings
from functools import partial
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
import torchvision
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

import gpu_aug
from gpu_aug import (
    GaussianBlur,
    HorizontalFlip,
    Invert,
    Normalize,
    OneOf,
    RandomApply,
    Recipe,
    RecipeError,
    Solarize,
    TargetsError,
    Views,
)
from gpu_aug.convert import convert
from gpu_aug.convert.torchvision import from_torchvision


class MocoBlur:
    """A blur as self-supervised code bases have it."""

    def __init__(self, low: float = 0.1, high: float = 2.0) -> None:
        self.sigma = (low, high)

    def __call__(self, image: Any) -> Any:  # noqa: D102
        return image


class OwnSolarize(A.ImageOnlyTransform):
    """A transform of the user's own for Albumentations."""

    def apply(self, img: Any, **_: Any) -> Any:  # noqa: D102
        return img


def to_255(image: Any) -> Any:
    return image * 255


def preprocess_input(image: Any, mean: float, **_: Any) -> Any:
    return image / 255 - mean


def to_bgr(image: Any, **_: Any) -> Any:
    return image[..., ::-1]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Albumentations warns of lambda expressions
    UNNAMED = A.Lambda(image=lambda image, **_: image[..., ::-1], name="rgb")
    MASK_IDENTITY = A.Lambda(mask=lambda mask, **_: mask)

BLUR = GaussianBlur(23, (0.1, 2.0))
AS_BLUR = {MocoBlur: lambda step: GaussianBlur(23, step.sigma)}
UNSCALED = Normalize(0.0, 1 / 255)

TORCHVISION: dict[str, tuple[Any, Any, list[Any]]] = {
    "class": ([MocoBlur(), v1.ToTensor()], AS_BLUR, [BLUR]),
    "in RandomApply": (
        [v1.RandomApply([MocoBlur()], 0.3)],
        AS_BLUR,
        [RandomApply([BLUR], 0.3)],
    ),
    "in RandomChoice": (
        [v2.RandomChoice([MocoBlur(), v2.RandomHorizontalFlip(1.0)])],
        AS_BLUR,
        [OneOf([BLUR, HorizontalFlip(1.0)], weights=(1.0, 1.0))],
    ),
    "function of a Lambda": ([v1.Lambda(to_255)], {to_255: lambda _: UNSCALED}, [UNSCALED]),
    "bare function": ([to_255], {to_255: lambda _: UNSCALED}, [UNSCALED]),
    "class Lambda": (
        [v2.Lambda(to_255)],
        {v2.Lambda: lambda _: [UNSCALED, BLUR]},
        [UNSCALED, BLUR],
    ),
    "function before class": (
        [v1.Lambda(to_255), v1.Lambda(to_bgr)],
        {v1.Lambda: lambda _: BLUR, to_255: lambda _: UNSCALED},
        [UNSCALED, BLUR],
    ),
    "function that does nothing": ([v1.Lambda(lambda x: x), v1.RandomInvert()], {}, [Invert()]),
    "function that makes RGB of other modes": (
        [
            v1.Lambda(lambda img: img.convert("RGB") if img.mode != "RGB" else img),
            v1.RandomInvert(),
        ],
        {},
        [Invert()],
    ),
    "nothing": (
        [MocoBlur(), v1.RandomHorizontalFlip()],
        {MocoBlur: lambda _: None},
        [HorizontalFlip()],
    ),
    "step of the library": (
        [MocoBlur()],
        {MocoBlur: lambda _: v1.RandomHorizontalFlip(0.2)},
        [HorizontalFlip(0.2)],
    ),
    "class of the library": (
        [v1.RandomInvert(0.2)],
        {v1.RandomInvert: lambda step: Solarize(0.5, p=step.p)},
        [Solarize(0.5, p=0.2)],
    ),
    "itself": (
        [v1.RandomInvert(0.2)],
        {v1.RandomInvert: lambda step: [step, BLUR]},
        [Invert(0.2), BLUR],
    ),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_steps_of_torchvision_are_replaced(name: str) -> None:
    steps, translate, expected = TORCHVISION[name]

    assert (
        list(Recipe.from_torchvision(v2.Compose(steps), translate=translate).operations) == expected
    )


def own(step: Any) -> Any:
    return Solarize(0.5, p=step.p)


ALBUMENTATIONS: dict[str, tuple[Any, Any, list[Any]]] = {
    "class": ([OwnSolarize(p=0.3)], {OwnSolarize: own}, [Solarize(0.5, p=0.3)]),
    "chosen by OneOf": (
        [A.OneOf([OwnSolarize(p=0.2), A.HorizontalFlip(p=0.6)], p=1)],
        {OwnSolarize: own},
        [OneOf([Solarize(0.5, p=1.0), HorizontalFlip(1.0)], weights=(0.2, 0.6))],
    ),
    "p is 0": ([OwnSolarize(p=0), A.HorizontalFlip()], {OwnSolarize: own}, [HorizontalFlip()]),
    "step of the library": (
        [A.Sequential([OwnSolarize(p=0.3)], p=1)],
        {OwnSolarize: lambda step: A.InvertImg(p=step.p)},
        [Invert(0.3)],
    ),
    "function of a partial": (
        [A.Lambda(image=partial(preprocess_input, mean=0.4), name="of a model")],
        {preprocess_input: lambda _: Normalize(0.4, 1.0)},
        [Normalize(0.4, 1.0)],
    ),
    "functions that do nothing": (
        [MASK_IDENTITY, A.Lambda(mask=None), A.HorizontalFlip()],
        {},
        [HorizontalFlip()],
    ),
    "function of a Lambda": (
        [A.Lambda(image=to_bgr, p=0.5), A.HorizontalFlip()],
        {to_bgr: lambda _: []},
        [HorizontalFlip()],
    ),
}


@pytest.mark.parametrize("name", ALBUMENTATIONS)
def test_steps_of_albumentations_are_replaced(name: str) -> None:
    """Inside a choice that has chosen it, a step has the probability 1, as in Albumentations."""
    steps, translate, expected = ALBUMENTATIONS[name]

    assert (
        list(Recipe.from_albumentations(A.Compose(steps), translate=translate).operations)
        == expected
    )


def test_the_step_of_a_replacement_says_where_floats_begin() -> None:
    """A fill after the user's ToTensor is read in [0, 1], as after torchvision's."""
    steps = [MocoBlur(), v1.Pad(2, fill=0.5)]
    as_tensor = from_torchvision(steps, translate={MocoBlur: lambda _: v1.ToTensor()})
    as_nothing = from_torchvision(steps, translate={MocoBlur: lambda _: None})

    assert as_tensor.operations[-1].fill == 0.5
    assert as_nothing.operations[-1].fill == pytest.approx(0.5 / 255)
    assert as_tensor.output == ("ToTensor",)


def test_another_probability_is_reported() -> None:
    translate = {OwnSolarize: lambda _: Solarize(0.5, p=1.0)}
    line = convert(A.Compose([OwnSolarize(p=0.3)]), translate=translate).lines[0]

    assert (line.outcome, line.remark) == (
        "translated",
        "translated: its p is 1, and that of the step 0.3",
    )


WRONG: dict[str, tuple[Any, str]] = {
    "no dictionary": ([MocoBlur], "translate must be a dictionary"),
    "name of a class": ({"MocoBlur": own}, r"translate cannot use 'MocoBlur'"),
    "no function": ({MocoBlur: 3}, r"translate cannot use .*MocoBlur.*: 3"),
    "returns a number": ({MocoBlur: lambda _: 3}, "MocoBlur: translate returned 3; nearest: write"),
    "returns a class": ({MocoBlur: lambda _: Solarize}, r"list > MocoBlur: .*Solarize'>; nearest"),
    "returns Views": (
        {MocoBlur: lambda _: Views([Recipe([Invert()])] * 2)},
        "build Views in place of the import",
    ),
    "met no step": (
        AS_BLUR | {OwnSolarize: own},
        r"translate: no step is or holds OwnSolarize; nearest: one of the steps MocoBlur, or",
    ),
    "returns code again": (
        {MocoBlur: lambda _: to_bgr},
        r"MocoBlur > function: to_bgr is not torchvision's",
    ),
    "out of range": ({MocoBlur: lambda _: [UNSCALED, Solarize(0.5)]}, "Solarize needs values in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_translations_are_refused(name: str) -> None:
    translate, message = WRONG[name]

    with pytest.raises(RecipeError, match=message):
        from_torchvision([MocoBlur()], translate=translate)


def made(name: str, *bases: type, **attributes: Any) -> Any:
    """Return an object of a class of the user's own with these attributes."""
    step = types.new_class(name, bases, exec_body=lambda body: body.update(__call__=to_bgr))()
    vars(step).update(attributes)
    return step


FLIP = v1.Compose([v1.RandomHorizontalFlip()])
SUGGESTED: dict[str, tuple[Any, str]] = {
    "blur": (MocoBlur(), "translate={MocoBlur: lambda step: gpu_aug.GaussianBlur(...)}"),
    "solarize": (made("Solarization"), "{Solarization: lambda step: gpu_aug.Solarize(...)}"),
    "probability": (made("MaybeInvert", p=0.2), "lambda step: gpu_aug.Invert(..., p=step.p)}"),
    "tensor": (made("MaybeToTensor"), "lambda step: torchvision.transforms.ToTensor()}"),
    "RGB": (made("EnsureRGB"), "translate={EnsureRGB: lambda step: None}"),
    "similar name": (made("PlasmaShadows"), "lambda step: gpu_aug.PlasmaShadow(...)}"),
    "unknown": (
        made("Frobnicate"),
        "strict=False, which calls it on the CPU; translate={Frobnicate: lambda step: None} if",
    ),
    "function": (v1.Lambda(to_255), "{to_255: lambda step: gpu_aug.Normalize(0.0, 1 / 255)}"),
    "lambda": (
        v1.Lambda(lambda x: x * 2),
        "translate={torchvision.transforms.Lambda: lambda step: ",
    ),
    "lambda of v2": (
        v2.Lambda(lambda x: x * 2),
        "{torchvision.transforms.v2.Lambda: lambda step: ",
    ),
    "bare lambda": (lambda x: x * 2, "translate={types.FunctionType: lambda step: "),
    "holds a pipeline": (made("Preset", transforms=FLIP), "{Preset: lambda step: step.transforms}"),
    "two views": (
        made("TwoCropsTransform", base=FLIP),
        "Views([Recipe.from_torchvision(step.base)] * 2), with TwoCropsTransform as step",
    ),
    "counted views": (
        made("ContrastiveLearningViewGenerator", base=FLIP, n_views=3),
        "Views([Recipe.from_torchvision(step.base)] * step.n_views), with Contrast",
    ),
    "list of views": (
        made("MultiCropDataset", trans=[FLIP, FLIP]),
        "Views([Recipe.from_torchvision(one) for one in step.trans]), with MultiCropDataset",
    ),
    "container of the user": (
        made("PairCompose", transforms=[MocoBlur()]),
        "{PairCompose: lambda step: step.transforms}, if the rest of PairCompose may be left out",
    ),
    "type of NumPy": (np.float32, "translate={numpy.float32: lambda step: None}"),
    "standardization": (
        made("fixed_image_standardization"),
        "lambda step: gpu_aug.Normalize(...)}, for images in [0, 1]",
    ),
    "several pipelines": (
        made("DataAugmentationDINO", a=FLIP, b=FLIP),
        "Views([Recipe.from_torchvision(step.a), Recipe.from_torchvision(step.b)]), with",
    ),
}


@pytest.mark.parametrize("name", SUGGESTED)
def test_errors_show_the_line_to_write(name: str) -> None:
    step, line = SUGGESTED[name]

    with pytest.raises(RecipeError) as caught:
        from_torchvision([step])
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (OwnSolarize(), "{OwnSolarize: lambda step: gpu_aug.Solarize(..., p=step.p)}"),
        (
            A.Lambda(image=to_bgr, name="bgr"),
            "translate={to_bgr: lambda step: gpu_aug.BatchFunction(lambda images: images.flip(1)",
        ),
        (UNNAMED, "translate={A.Lambda: lambda step: None}"),
        (
            A.Lambda(image=partial(preprocess_input, mean=0.4), name="of a model"),
            "translate={preprocess_input: lambda step: gpu_aug.Normalize(...)}, for images in [0, 1]",
        ),
        (
            A.Lambda(mask=to_bgr, name="of masks"),
            "calling its function on the mask before the recipe, and translate={to_bgr: lambda step: None}",
        ),
    ],
    ids=["class", "function", "lambda", "partial", "masks"],
)
def test_errors_of_albumentations_show_the_line_to_write(step: Any, line: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.from_albumentations(A.Compose([step]))
    assert line in str(caught.value)


@pytest.mark.parametrize("name", ["tensor", "RGB", "function", "lambda of v2", "holds a pipeline"])
def test_the_line_to_write_works(name: str) -> None:
    """What is suggested can be pasted, and imports the pipeline."""
    step, _ = SUGGESTED[name]
    [line] = convert([step]).lines
    names = {"gpu_aug": gpu_aug, "torchvision": torchvision, "to_255": to_255, "function": len}
    names |= {type(step).__name__: type(step)}

    shown = re.search(r"translate=(\{.*\})", line.note)
    assert shown

    assert convert([step], translate=eval(shown[1], names)).recipe is not None


def test_crops_need_no_stacking() -> None:
    """The error says so, and its line makes the views; floats begin where the function made tensors."""
    stack = v1.Lambda(lambda crops: torch.stack([v1.functional.to_tensor(crop) for crop in crops]))
    steps = [v1.Resize(80), v1.FiveCrop(64), stack]
    with pytest.raises(RecipeError, match="views, which are not stacked; nearest: ToTensor"):
        from_torchvision(steps)

    views = from_torchvision(steps, translate={v1.Lambda: lambda _: v1.ToTensor()})

    assert isinstance(views, Views)
    image = np.random.default_rng(0).integers(0, 256, (80, 90, 3), np.uint8)
    pillow = v1.functional.to_pil_image(image)
    ours = torch.stack(views.transform(seed=0)(pillow))
    assert torch.allclose(ours, v1.Compose(steps)(pillow), atol=1e-6)


def test_a_conversion_prints_as_a_table() -> None:
    """One row for each step; taken apart it is the recipe and the lines."""
    pipeline = v1.Compose([v1.CenterCrop(32), v1.ColorJitter(0.4), v1.Grayscale(1), to_255])
    result = convert(pipeline)
    recipe, lines = result
    head, rule, *rows = str(result).splitlines()

    assert recipe is None
    assert [line.outcome for line in lines] == ["kept", "kept", "changed", "refused"]
    assert [cell.strip() for cell in head.split("|")] == ["step", "operation here", "remark"]
    assert len({row.find("|") for row in (head, *rows)}) == 1
    assert set(rule) == {"-", " ", "|"}
    first = [[cell.strip() for cell in row.split("|")] for row in rows]
    assert first[0] == ["CenterCrop", "CenterCrop(size=(32, 32))", "exact"]
    assert first[1][2] == "within 0.01/255"
    assert any(row[2].startswith("changed: images keep three channels") for row in first)
    assert any(row[2].startswith("refused: to_255 is not torchvision's") for row in first)
    assert max(map(len, rows)) <= 150
    assert repr(result) == "Conversion(4 steps, 1 refused: print it for the table)"


def test_an_unknown_function_runs_as_the_error_says(photo_of_pillow: Any) -> None:
    """With strict=False the transform gives what torchvision gives, for a single image."""
    steps = v1.Compose([v1.CenterCrop(32), v1.ToTensor(), v1.Lambda(lambda x: x * 0.5)])
    with pytest.warns(UserWarning, match="run on the CPU"):
        recipe = from_torchvision(steps, strict=False)

    ours = recipe.transform(seed=0)(photo_of_pillow)

    assert torch.allclose(ours, steps(photo_of_pillow), atol=1e-6)


@pytest.fixture
def photo_of_pillow() -> Any:
    """A Pillow image of noise."""
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    return v1.functional.to_pil_image(image)


CHANGED = {
    "box format": (v2.ConvertBoundingBoxFormat("CXCYWH"), "boxes must be given as cxcywh too"),
    "rotated box format": (
        v2.ConvertBoundingBoxFormat("XYXYXYXY"),
        "boxes must be given as xyxyxyxy too",
    ),
    "type of masks": (
        v2.ToDtype({tv_tensors.Mask: torch.int64, "others": None}),
        "masks keep their type: convert them to torch.int64",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_conversions_of_targets_are_reported(name: str) -> None:
    step, note = CHANGED[name]
    [line] = convert([step]).lines

    assert line.outcome == "changed"
    assert note in line.note


def test_a_choice_of_normalizations_reads_both_in_the_same_units() -> None:
    steps = [
        A.OneOf([A.Normalize((0.5,) * 3, (0.5,) * 3), A.Normalize((0.4,) * 3, (0.2,) * 3)], p=1)
    ]
    [choice] = Recipe.from_albumentations(A.Compose(steps)).operations

    assert choice.operations == (Normalize(0.5, 0.5), Normalize(0.4, 0.2))


@pytest.mark.parametrize(
    "mix", [v2.CutMix(num_classes=9), v2.RandomChoice([v2.MixUp(num_classes=9)])]
)
def test_mixing_is_imported_with_the_pipeline_of_images(mix: Any) -> None:
    with pytest.raises(RecipeError, match=r"import both at once: Recipe\.from_torchvision\(\["):
        from_torchvision(mix)

    assert from_torchvision([v2.Resize((32, 32)), mix]).size == (32, 32)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(RecipeError, match=r"'nope\.yaml' is missing: .* A\.save"):
        Recipe.from_albumentations("nope.yaml")


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("bboxes", "'boxes'"),
        ("image0", "'images'"),
        ("labels", "'box_labels'"),
        ("mask2", "'masks'"),
    ],
)
def test_keys_of_the_libraries_are_answered_with_ours(key: str, advice: str) -> None:
    sample = {"image": np.zeros((8, 8, 3), np.uint8), key: []}
    with pytest.raises(TargetsError, match=f"got '{key}': give .*as {advice}"):
        Recipe([Invert()]).transform(seed=0)(sample)
