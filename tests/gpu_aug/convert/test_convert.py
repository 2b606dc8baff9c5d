"""Pipelines of Albumentations and torchvision become recipes, or are refused by name."""

import json
import random
import warnings

import albumentations as A
import cv2
import numpy as np
import pytest
import torch
from albumentations import pytorch as A_pytorch
from albumentations.core.composition import BaseCompose
from albumentations.core.transforms_interface import (
    BasicTransform,
    DualTransform,
    ImageOnlyTransform,
    Transform3D,
)
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import v2

from gpu_aug import (
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    OneOf,
    RandomApply,
    RandomOrder,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    SomeOf,
    Targets,
    VerticalFlip,
    apply,
    move_batch,
)
from gpu_aug.convert import convert, from_albumentations, from_torchvision
from gpu_aug.ops.combine import SomeOfRepeated
from gpu_aug.ops.foreign.transforms import AlbumentationsTransform, TorchvisionTransform
from gpu_aug.ops.geometric.crops import FixedCrop
from gpu_aug.ops.geometric.flips import Identity
from gpu_aug.targets.targets import BoxParams, KeypointParams
from gpu_aug.views import Views
from tests.support.engines import ENGINES, render
from tests.support.pipelines import ALBUMENTATIONS, TORCHVISION

SIZE = (96, 112)
HF, VF = HorizontalFlip, VerticalFlip


@pytest.fixture(autouse=True)
def _quiet():
    """Constructors of Albumentations and torchvision warn of what is not tested here."""
    with warnings.catch_warnings():
        for package in ("albumentations", "torchvision"):
            warnings.filterwarnings("ignore", module=rf"{package}\.")
        yield


def quietly(build, args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(**args)


@pytest.fixture(scope="module")
def photo(photos) -> torch.Tensor:
    with Image.open(photos[0]) as image:
        return torch.from_numpy(np.array(image.convert("RGB").resize(SIZE[::-1])))


def label(case) -> str:
    return f"{case[0]}-{'-'.join(case[1])}" if case[1] else case[0]


def build_albumentations(name, args):
    return quietly(getattr(A, name, getattr(A_pytorch, name, None)), args)


def build_torchvision(name, args):
    words = {"eye": torch.eye(12), "zeros": torch.zeros(12), "float32": torch.float32}
    args = {
        key: words.get(value, value) if isinstance(value, str) else value
        for key, value in args.items()
    }
    return quietly(getattr(v2, name), args)


def run(recipe: Recipe, image: torch.Tensor, engine: str):
    """Run a recipe on the same image for 2 samples."""
    images = torch.stack([image] * 2) if recipe.decode_size else [image] * 2
    return render(engine, recipe, images)


def check_it_runs(recipe: Recipe, image: torch.Tensor) -> None:
    """Both engines carry it out, or say by name that they cannot."""
    fixed = Recipe([CenterCrop(SIZE), HF(0.0), *recipe.operations])
    for engine in ENGINES:
        try:
            results = run(fixed, image, engine)
        except RecipeError as error:
            assert f"engine {engine!r} cannot" in str(error)  # noqa: PT017 - may happen
            continue
        assert all(torch.isfinite(out).all() for out in results)


def test_the_table_has_every_class_of_albumentations():
    """No transform that Albumentations 2.0.8 exports is missing in the table below."""
    bases = (BasicTransform, DualTransform, ImageOnlyTransform, Transform3D)
    found = {
        name
        for module in (A, A_pytorch)
        for name, cls in vars(module).items()
        if isinstance(cls, type) and issubclass(cls, BasicTransform) and cls not in bases
    }

    assert found == {name for name, _ in ALBUMENTATIONS}


def test_the_table_has_every_class_of_torchvision():
    """No transform that torchvision v2 exports is missing in the table below."""
    containers = {"Compose", "RandomApply", "RandomChoice", "RandomOrder"}
    found = {
        name
        for name, cls in vars(v2).items()
        if isinstance(cls, type) and issubclass(cls, v2.Transform) and cls is not v2.Transform
    }
    abstract = {"AutoAugmentPolicy"}

    assert found - containers - abstract == {name for name, _ in TORCHVISION}


@pytest.mark.parametrize("case", ALBUMENTATIONS, ids=label)
def test_a_transform_of_albumentations_is_imported_or_refused_by_name(case, photo):
    """It converts and runs, or the error has its name, a reason, and nothing crashes."""
    name, args = case
    transform = build_albumentations(name, args)
    try:
        recipe = from_albumentations(A.Compose([transform]))
    except RecipeError as error:
        assert f"Compose > {name}: " in str(error)  # noqa: PT017 - either is right
        assert len(str(error)) > len(f"Compose > {name}: ") + 60  # noqa: PT017
        return
    check_it_runs(recipe, photo)


@pytest.mark.parametrize("case", TORCHVISION, ids=label)
def test_a_transform_of_torchvision_is_imported_or_refused_by_name(case, photo):
    """It converts and runs, or the error has its name, a reason, and nothing crashes."""
    name, _ = case
    try:
        recipe = from_torchvision(v2.Compose([build_torchvision(*case)]))
    except RecipeError as error:
        assert f"Compose > {name}: " in str(error)  # noqa: PT017 - either is right
        return
    if isinstance(recipe, Views):
        assert name in ("FiveCrop", "TenCrop")
    else:
        check_it_runs(recipe, photo)


@pytest.mark.parametrize("case", ALBUMENTATIONS, ids=label)
def test_objects_dictionaries_and_files_say_the_same(case, tmp_path):
    """The object, to_dict(), JSON and YAML give one recipe, or are refused alike."""
    pipeline = A.Compose([build_albumentations(*case), A.HorizontalFlip(p=0.5)])
    try:
        described = pipeline.to_dict()
    except (NotImplementedError, ValueError):
        assert case[0] in ("FDA", "HistogramMatching", "Lambda", "PixelDistributionAdaptation")
        return
    A.save(pipeline, tmp_path / "p.json")
    A.save(pipeline, tmp_path / "p.yaml", data_format="yaml")

    expected, _ = convert(pipeline)
    for source in (described, tmp_path / "p.json", str(tmp_path / "p.yaml")):
        assert convert(source)[0] == expected


def flips(**more):
    """A.Compose of two flips that can be told apart."""
    return A.Compose([A.HorizontalFlip(p=0.3), A.VerticalFlip(p=0.4)], **more)


@pytest.mark.parametrize(
    ("pipeline", "operations"),
    [
        (flips(), [HF(0.3), VF(0.4)]),
        (flips(p=0.5), [RandomApply([HF(0.3), VF(0.4)], 0.5)]),
        (A.Compose([flips(p=0.5)]), [RandomApply([HF(0.3), VF(0.4)], 0.5)]),
        (A.Compose([A.Sequential(flips().transforms, p=1)]), [HF(0.3), VF(0.4)]),
        (A.HorizontalFlip(p=0.2), [HF(0.2)]),
        (
            A.OneOf(flips().transforms, p=0.9),
            [OneOf([HF(1.0), VF(1.0)], weights=(0.3, 0.4), p=0.9)],
        ),
        (
            A.OneOf([A.HorizontalFlip(p=0.2), A.NoOp(p=0.6)], p=0.5),
            [RandomApply([HF(1.0)], 0.5 * 0.2 / (0.2 + 0.6))],
        ),
        (
            A.OneOf([A.Sequential(flips().transforms, p=0.5), A.VerticalFlip(p=0.5)], p=1),
            [OneOf([RandomApply([HF(0.3), VF(0.4)], 1.0), VF(1.0)])],
        ),
        (
            A.OneOf([A.SomeOf(flips().transforms, n=1, p=0.5), A.VerticalFlip(p=0.5)], p=1),
            [OneOf([SomeOf([HF(0.3), VF(0.4)], 1, p=0.5), VF(1.0)])],
        ),
        (
            A.OneOrOther(A.HorizontalFlip(p=0.1), A.VerticalFlip(p=0.1), p=0.7),
            [OneOf([HF(1.0), VF(1.0)], weights=(0.7, 1 - 0.7))],
        ),
        (A.SomeOf(flips().transforms, n=1, p=0.8), [SomeOf([HF(0.3), VF(0.4)], 1, p=0.8)]),
        (A.SomeOf(flips().transforms, n=2, p=1), [HF(0.3), VF(0.4)]),
        (
            A.SomeOf([A.HorizontalFlip(p=0.3), A.NoOp()], n=1),
            [SomeOf([HF(0.3), Identity()], 1)],
        ),
        (
            A.SomeOf(flips().transforms, n=3, replace=True, p=0.8),
            [SomeOfRepeated([HF(0.3), VF(0.4)], 3, p=0.8)],
        ),
        (A.RandomOrder(flips().transforms, n=2), [RandomOrder([HF(0.3), VF(0.4)])]),
        (A.RandomOrder(flips().transforms, n=1), [RandomOrder([HF(0.3), VF(0.4)], n=1)]),
        (
            A.RandomOrder(flips().transforms, n=2, replace=True),
            [OneOf([HF(0.3), VF(0.4)]), OneOf([HF(0.3), VF(0.4)])],
        ),
        (A.Compose([A.NoOp(), A_pytorch.ToTensorV2()]), [Identity()]),
        (A.Compose([A.HorizontalFlip(p=0), A.GlassBlur(p=0)]), [Identity()]),
        (A.ReplayCompose(flips().transforms), [HF(0.3), VF(0.4)]),
    ],
    ids=lambda case: type(case).__name__ if not isinstance(case, list) else "",
)
def test_containers_keep_their_law(pipeline, operations):
    """Nesting and probabilities, objects and dictionaries."""
    assert list(from_albumentations(pipeline).operations) == operations
    assert list(from_albumentations(pipeline.to_dict()).operations) == operations


@pytest.mark.parametrize(
    "pipeline",
    [
        A.SomeOf([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.6), A.NoOp()], n=2, replace=True),
        A.SomeOf([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.6), A.NoOp()], n=2, p=0.9),
        A.OneOf([A.HorizontalFlip(p=0.5), A.Sequential([A.VerticalFlip(p=0.5)], p=0.3), A.NoOp()]),
        A.RandomOrder([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.6)], n=1, p=0.7),
    ],
    ids=lambda pipeline: type(pipeline).__name__,
)
def test_outcomes_are_as_frequent_as_in_albumentations(pipeline):
    """Albumentations itself, run 4000 times, flips as often as the recipe's draws."""
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    # The first pixel tells the four pictures apart.
    pictures = [image, image[:, ::-1], image[::-1], image[::-1, ::-1]]
    keys = [picture[0, 0, 0] for picture in pictures]
    pipeline.set_random_state(np.random.default_rng(0), random.Random(0))
    results = [keys.index(pipeline(image=image)["image"][0, 0, 0]) for _ in range(4000)]
    theirs = np.bincount(results, minlength=4)

    recipe = Recipe([CenterCrop(2), *from_albumentations(pipeline).operations])
    draws = recipe.draw(0, 0, np.arange(4000), np.full((4000, 2), 2))
    left_right, top_bottom = (
        np.logical_xor.reduce([params["apply"] & params[name] for params in draws.params])
        for name in ("left_right", "top_bottom")
    )
    ours = np.bincount(left_right + 2 * top_bottom, minlength=4)

    assert np.abs(ours - theirs).max() < 5 * np.sqrt(2 * 4000 * 0.25)


def test_all_refusals_are_reported_together():
    """Each step that has no equal is listed with its path, its reason and what comes nearest."""

    def custom(image, **params):  # noqa: ARG001 - Albumentations gives them
        return image // 2

    pipeline = A.Compose(
        [
            A.HorizontalFlip(),
            A.OneOf([A.Lambda(image=custom, name="mine"), A.VerticalFlip()]),
            A.SelectiveChannelTransform([A.HorizontalFlip()], channels=[0]),
        ]
    )
    with pytest.raises(RecipeError) as caught:
        from_albumentations(pipeline)

    lines = str(caught.value).splitlines()
    assert "2 steps" in lines[0]
    assert lines[1].startswith("  Compose > OneOf > Lambda: it holds functions")
    assert "translate={custom: lambda step: None}" in lines[1]
    assert lines[2].startswith("  Compose > SelectiveChannelTransform: ")


def test_the_report_has_a_line_for_each_step():
    """Kept, nothing to do, refused, in the order of the pipeline."""
    recipe, lines = convert(
        A.Compose([A.HorizontalFlip(), A.NoOp(), A.Lambda(image=invert, name="x")])
    )

    assert (recipe, [line.outcome for line in lines]) == (
        None,
        ["kept", "nothing to do", "refused"],
    )
    assert lines[0].note == "HorizontalFlip()"
    assert str(lines[2]).startswith("Compose > Lambda: refused: ")


def test_a_refused_step_can_be_kept_as_it_is(photo):
    """strict=False runs it on the CPU, and one warning names it."""
    pipeline = A.Compose([A.HorizontalFlip(), A.Lambda(image=invert, name="invert", p=1.0)])
    with pytest.warns(UserWarning, match=r"run on the CPU:\n  Compose > Lambda: ") as caught:
        recipe = from_albumentations(pipeline, strict=False)

    assert len(caught) == 1
    assert isinstance(recipe.operations[1], AlbumentationsTransform)
    fixed = Recipe([CenterCrop(SIZE), recipe.operations[1]])
    expected = 1 - photo.permute(2, 0, 1).float() / 255
    for engine in ENGINES:
        assert torch.allclose(run(fixed, photo, engine)[0], expected, atol=1e-6)


def invert(image, **params):  # noqa: ARG001 - Albumentations gives them
    return 255 - image


def shrink(image, **params):  # noqa: ARG001 - Albumentations gives them
    return image[:10]


def test_a_step_that_changes_the_size_cannot_be_kept():
    """It would make a batch impossible, and is refused although strict is off."""
    with pytest.raises(RecipeError, match=r"nor can it run as it is: .* must keep the shape"):
        from_albumentations(A.Compose([A.Lambda(image=shrink, name="s", p=1.0)]), strict=False)


class HorizontalFlipOfMine(A.HorizontalFlip):
    pass


def test_a_class_of_the_user_is_not_mistaken():
    """What is derived from a known class may do anything."""
    with pytest.raises(RecipeError, match="HorizontalFlipOfMine is unknown here"):
        from_albumentations(A.Compose([HorizontalFlipOfMine()]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pascal_voc", BoxParams("xyxy", min_area=4, clip=True, shrink_in_holes=True)),
        ("coco", BoxParams("xywh", min_area=4, clip=True, shrink_in_holes=True)),
        ("yolo", BoxParams("cxcywh", True, min_area=4, clip=True, shrink_in_holes=True)),
    ],
)
def test_box_and_keypoint_params_are_kept(name, expected):
    """Formats and filters go over, from objects and from dictionaries."""
    boxes = A.BboxParams(name, label_fields=["labels"], min_area=4, clip=True)
    points = A.KeypointParams("xy", remove_invisible=False)
    pipeline = flips(bbox_params=boxes, keypoint_params=points)
    for source in (pipeline, pipeline.to_dict()):
        recipe = from_albumentations(source)

        assert recipe.boxes == expected
        assert recipe.keypoints == KeypointParams(
            remove_invisible=False, pixel_index=True, flip_pairs=()
        )


ENLARGED = A.Resize(64, 64)


@pytest.mark.parametrize(
    "steps",
    [
        [A.HorizontalFlip(p=0), ENLARGED],
        [A.NoOp(), ENLARGED],
        [A.OneOf([A.VerticalFlip(p=1)], p=0), ENLARGED],
        [A.Sequential([A.HorizontalFlip(p=0), ENLARGED], p=1)],
        [ENLARGED, A.NoOp()],
        [A.OneOf([A.Resize(16, 16), ENLARGED], p=1)],
        [],
    ],
    ids=["p=0", "NoOp", "choice p=0", "nested p=0", "NoOp last", "choice", "no steps"],
)
def test_boxes_are_dropped_after_each_step_of_the_pipeline(steps):
    """A step that does nothing is one, and a choice is one: what is left is what Compose leaves."""
    params = A.BboxParams("pascal_voc", ["labels"], min_area=100)
    boxes, labels = [[0, 0, 6, 6], [0, 0, 12, 12]], [1, 2]
    compose = A.Compose(steps, bbox_params=params, seed=0)
    image = np.zeros((16, 16, 3), np.uint8)
    theirs = [compose(image=image, bboxes=boxes, labels=labels)["labels"] for _ in range(16)]

    recipe = from_albumentations(compose)
    draws = recipe.draw(0, 0, np.arange(16), np.array([[16, 16]] * 16))
    moved = move_batch(recipe, draws, [Targets(boxes, labels)] * 16)

    assert {tuple(one.box_labels) for one in moved} == {tuple(kept) for kept in theirs}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"keypoint_params": A.KeypointParams("xya")},
            "keypoint_params: keypoints are .* got format",
        ),
        ({"bbox_params": A.BboxParams("coco", min_area=1), "p": 0.5}, "with p below 1 boxes are"),
        (
            {"bbox_params": A.BboxParams("coco"), "additional_targets": {"boxes2": "bboxes"}},
            "'boxes2' would be a second",
        ),
    ],
)
def test_targets_that_cannot_be_kept_are_refused(more, message):
    """They are named with their reason."""
    with pytest.raises(RecipeError, match=message):
        from_albumentations(flips(**more))


@pytest.mark.parametrize(
    ("transform", "off"),
    [(A.Affine(rotate=(90, 90), fit_output=True, p=1), 1.0), (A.SafeRotate((90, 90), p=1), 0.5)],
)
def test_boxes_lie_on_the_picture_where_those_of_albumentations_do_not(transform, off):
    """A white rectangle after a quarter turn: the report says by how much they differ."""
    image, box = np.zeros((60, 80, 3), np.uint8), [30, 20, 50, 40]
    image[20:40, 30:50] = 255
    compose = A.Compose([transform], bbox_params=A.BboxParams("pascal_voc", ["labels"]))
    theirs = compose(image=image, bboxes=np.array([box], float), labels=[0])["bboxes"][0]

    recipe, lines = convert(compose)
    result = apply(recipe, [{"image": image, "boxes": [box]}])[0]
    rows, columns = np.nonzero(result["image"][0].numpy() > 0.5)
    seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    boxes = np.asarray(result["boxes"])[0]

    assert np.abs(boxes - seen).max() < 0.2
    assert np.abs(boxes - theirs).max() == pytest.approx(off, abs=0.01)
    assert (lines[2].outcome, "on the picture" in lines[2].note) == ("changed", True)


@pytest.mark.parametrize("mixes", [v2.MixUp, v2.CutMix])
def test_what_is_drawn_once_per_batch_there_is_not_called_kept(mixes):
    """Torchvision draws one share for a batch, and the recipe one for each pair member."""
    pictures, labels = torch.zeros(8, 3, 32, 32), torch.arange(8)
    theirs = mixes(alpha=1.0, num_classes=8)(pictures, labels)[1].amax(dim=1)

    recipe, lines = convert([v2.Resize((32, 32)), mixes(alpha=1.0, num_classes=8)])
    draws = recipe.draw(0, 0, np.arange(8), np.array([[32, 32]] * 8))
    ours = recipe.leaves[-1].shares(draws.params[-1]).max(axis=1)

    assert len(set(theirs.tolist())) == 1
    assert len(set(ours.tolist())) == 8
    assert [line.outcome for line in lines] == ["kept", "changed"]
    assert "each image draws its own" in lines[1].note


def test_a_file_for_another_version_is_refused(tmp_path):
    """Arguments that 2.0.8 would ignore with a warning are an error."""
    described = flips().to_dict()
    described["transform"]["transforms"][0]["always_apply"] = True
    (tmp_path / "old.json").write_text(json.dumps(described))

    with pytest.raises(RecipeError, match=r"Compose > HorizontalFlip: .*always_apply"):
        from_albumentations(tmp_path / "old.json")


@pytest.mark.parametrize("source", [{"a": 1}, 3, None, {"transform": 3}])
def test_something_else_is_no_pipeline(source):
    """It is said what is taken."""
    with pytest.raises(RecipeError, match="pipeline must be"):
        from_albumentations(source)


@pytest.mark.parametrize(
    ("take", "pipeline", "other"),
    [
        (from_torchvision, A.Compose([A.HorizontalFlip()]), "from_albumentations"),
        (from_torchvision, v2.Compose([A.HorizontalFlip()]), "from_albumentations"),
        (from_torchvision, len, "strict=False, which calls it on the CPU"),
        (from_albumentations, v2.Compose([v2.RandomHorizontalFlip()]), "from_torchvision"),
        (from_albumentations, v1.RandomHorizontalFlip(), "from_torchvision"),
    ],
)
def test_a_pipeline_of_the_other_library(take, pipeline, other):
    """The function that takes it is named."""
    with pytest.raises(RecipeError, match=other):
        take(pipeline)


TO_FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
UNSCALED = [v2.ToDtype(torch.float32, scale=False), v2.Normalize([51.0] * 3, [102.0] * 3)]


@pytest.mark.parametrize(
    ("steps", "place", "fields"),
    [
        ([A.Pad(padding=2, fill=51), A.Normalize()], 0, {"fill": 0.2}),
        ([A.Normalize(), A.Pad(padding=2, fill=0.2)], 1, {"fill": 0.2}),
        ([v2.Pad(2, fill=51)], 0, {"fill": 0.2}),
        ([*TO_FLOAT, v2.Pad(2, fill=0.2)], 0, {"fill": 0.2}),
        ([v2.RandomRotation(10, fill=51)], 0, {"fill": 0.2, "fill_mask": 51}),
        ([*TO_FLOAT, v2.RandomRotation(10, fill=2.0)], 0, {"fill": 2.0, "fill_mask": 2}),
        ([*TO_FLOAT, v2.Pad(2, fill=(2.0,) * 3)], 0, {"fill": 2.0, "fill_mask": 2}),
        (UNSCALED, 0, {"mean": (0.2, 0.2, 0.2), "std": (0.4, 0.4, 0.4)}),
        ([v1.CenterCrop(32), v1.ToTensor(), v1.RandomErasing(value=0.5)], -1, {"value": 0.5}),
    ],
)
def test_values_have_the_units_of_their_place(steps, place, fields):
    """0..255 before ToTensor or Normalize, [0, 1] or normalised values after it; so is a mean without scaling."""
    of_albumentations = isinstance(steps[0], BasicTransform)
    recipe = from_albumentations(A.Compose(steps)) if of_albumentations else from_torchvision(steps)
    operation = recipe.operations[place]

    for name, value in fields.items():
        assert getattr(operation, name) == pytest.approx(value)


def test_torchvision_of_both_kinds():
    """The usual pipeline of transforms and of v2."""
    expected = [RandomResizedCrop(64, mask_interpolation="nearest_floor"), HF(0.5), Normalize()]
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    old = v1.Compose(
        [
            v1.RandomResizedCrop(64),
            v1.RandomHorizontalFlip(),
            v1.ToTensor(),
            v1.Normalize(mean, std),
        ]
    )
    new = [
        v2.ToImage(),
        v2.RandomResizedCrop(64),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean, std),
    ]

    for source in (old, new, v2.Compose(new), torch.nn.Sequential(*new)):
        assert list(from_torchvision(source).operations) == expected


@pytest.mark.parametrize("tv", [v1, v2], ids=["v1", "v2"])
def test_torchvision_containers(tv):
    """RandomApply, RandomChoice with weights and RandomOrder, nested."""
    inner = tv.RandomApply([tv.RandomHorizontalFlip(0.3), tv.ColorJitter(0.4)], p=0.8)
    pipeline = tv.Compose(
        [
            inner,
            tv.RandomChoice([tv.RandomHorizontalFlip(0.3), tv.RandomVerticalFlip(0.4)], p=[1, 3]),
            tv.RandomOrder([tv.RandomHorizontalFlip(0.3), inner]),
        ]
    )
    apply = RandomApply([HF(0.3), ColorJitter(0.4)], 0.8)
    operations = from_torchvision(pipeline).operations

    assert operations[0] == apply
    assert operations[1].operations == (HF(0.3), VF(0.4))
    assert operations[1].weights[1] == pytest.approx(3 * operations[1].weights[0])
    assert operations[2] == RandomOrder([HF(0.3), apply])


def test_five_and_ten_crops_are_views():
    """One recipe per crop, in torchvision's order; the flipped ones follow."""
    five = from_torchvision([v1.Resize((80, 90)), v1.FiveCrop(64), v1.ToTensor()])
    ten = from_torchvision([v1.TenCrop(64, vertical_flip=True)])

    assert [view.operations[1].position for view in five.recipes] == [
        "top_left", "top_right", "bottom_left", "bottom_right", "center",
    ]  # fmt: skip
    assert five.recipes[0].operations[0] == Resize((80, 90), mask_interpolation="nearest_floor")
    assert ten.recipes[5].operations == (VF(1.0), FixedCrop(64, "top_left"))
    with pytest.raises(RecipeError, match="draws once for all crops"):
        from_torchvision([v1.RandomHorizontalFlip(), v1.FiveCrop(64)])


def test_targets_of_v2_are_treated_as_there():
    """Boxes stay until they are sanitized, in the format that is asked for; v1 knows none."""
    recipe = from_torchvision([v2.ConvertBoundingBoxFormat("CXCYWH"), v2.SanitizeBoundingBoxes(2)])

    assert recipe.boxes == BoxParams("cxcywh", keep_empty=True)
    assert recipe.keypoints == KeypointParams(
        remove_invisible=False, pixel_index="flips", flip_pairs=()
    )
    assert recipe.operations[0].min_size == 2
    assert from_torchvision(v1.RandomHorizontalFlip()).boxes is None


def test_a_function_in_torchvision_is_refused_or_kept(photo):
    """Lambda and bare functions."""
    pipeline = v1.Compose([v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Lambda(lambda x: 1 - x)])
    with pytest.raises(RecipeError, match="Compose > Lambda: it holds a function"):
        from_torchvision(pipeline)
    with pytest.warns(UserWarning, match="Compose > Lambda"):
        recipe = from_torchvision(pipeline, strict=False)

    assert isinstance(recipe.operations[1], TorchvisionTransform)
    fixed = Recipe([CenterCrop(SIZE), recipe.operations[1]])
    expected = 1 - photo.permute(2, 0, 1).float() / 255
    assert torch.allclose(run(fixed, photo, "kornia")[0], expected, atol=1e-6)


def test_containers_are_those_of_albumentations():
    """A container that a later version adds would be noticed here."""
    known = {
        "BaseCompose", "Compose", "OneOf", "OneOrOther", "RandomOrder", "ReplayCompose",
        "SelectiveChannelTransform", "Sequential", "SomeOf",
    }  # fmt: skip
    assert known == {
        name
        for name, cls in vars(A).items()
        if isinstance(cls, type) and issubclass(cls, BaseCompose)
    }
    assert cv2.INTER_CUBIC == 2


def test_normalize_after_to_float_reads_its_values():
    """max_pixel_value is white where the image is: 255 before ToFloat, 1 after it."""
    plain = from_albumentations(A.Compose([A.Normalize()]))
    after = from_albumentations(
        A.Compose([A.ToFloat(max_value=255), A.Normalize(max_pixel_value=1)])
    )

    assert after.operations[-1].mean == pytest.approx(plain.operations[-1].mean)
    assert after.operations[-1].std == pytest.approx(plain.operations[-1].std)


@pytest.mark.parametrize(
    "transform",
    [
        A.PadIfNeeded(640, 640, border_mode=cv2.BORDER_REFLECT_101),
        A.Rotate(30, border_mode=cv2.BORDER_REFLECT),
        A.RandomCrop(64, 64, pad_if_needed=True, border_mode=cv2.BORDER_REFLECT_101),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_mirrored_copies_of_boxes_are_refused(transform):
    """Albumentations copies boxes into a mirrored border; without boxes the same border is kept."""
    boxes = A.BboxParams("pascal_voc", label_fields=["labels"])

    with pytest.raises(RecipeError, match="adds mirrored copies of boxes"):
        from_albumentations(A.Compose([transform], bbox_params=boxes))
    from_albumentations(A.Compose([transform]))


def test_policies_on_floats_are_refused():
    """Torchvision's policies have other rules on floats; on uint8 images they are kept."""
    to_float = v2.ToDtype(torch.float32, scale=True)

    with pytest.raises(RecipeError, match=r"RandAugment.* other rules on floats"):
        from_torchvision(v2.Compose([v2.ToImage(), to_float, v2.RandAugment()]))
    from_torchvision(v2.Compose([v2.ToImage(), v2.RandAugment(), to_float]))


def unchanged(image, **_):
    """Return the image."""
    return image.copy()


def test_the_warning_of_foreign_steps_names_the_line_of_the_caller():
    """Both libraries, called as methods of Recipe."""
    pipelines = (
        (Recipe.from_albumentations, A.Compose([A.Lambda(image=unchanged, name="unchanged")])),
        (Recipe.from_torchvision, v2.Compose([v2.Lambda(unchanged)])),
    )
    for load, pipeline in pipelines:
        with pytest.warns(UserWarning, match="run on the CPU") as caught:
            load(pipeline, strict=False)
        assert [one.filename for one in caught] == [__file__]
