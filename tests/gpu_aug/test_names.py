"""Names that are not there, and calls that do not fit, are answered with what to write instead."""

import re
from abc import ABC, abstractmethod
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

import dali_pipes
import gpu_aug
import readers
from gpu_aug import (
    BoxParams,
    CenterCrop,
    ClampBoundingBoxes,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    OneOf,
    RandomCrop,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    VerticalFlip,
    Views,
    letterbox,
)
from gpu_aug.names import ALIASES, closest
from gpu_aug.ops.operation import Operation

IMPORTED = Path(__file__).resolve().parents[2] / "docs" / "imports.md"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RandomHorizontalFlip", "did you mean HorizontalFlip?"),  # torchvision
        ("RandomGrayscale", "did you mean Grayscale?"),
        ("RandomMixUpV2", "did you mean MixUp?"),  # Kornia
        ("ImageCompression", "did you mean JPEG?"),  # Albumentations
        ("RandomResizedCropAndInterpolation", "did you mean RandomResizedCrop?"),  # timm
        ("Colorjiter", "did you mean ColorJitter?"),
        ("ToTensor", "images come decoded in RGB and leave as tensors, so leave it out"),
        ("RandomRain", "it has no equal here: it paints rain"),
        ("Gated", "it is now gpu_aug.ops.operation.WithProbability"),  # an earlier snapshot
    ],
)
def test_a_name_of_another_library_is_answered(name, words):
    """As an attribute, in an import, and in a recipe that is a dictionary."""
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(gpu_aug, name)
    with pytest.raises(ImportError, match=re.escape(words)):
        exec(f"from gpu_aug import {name}")
    with pytest.raises(RecipeError, match=re.escape(words)):
        Operation.from_dict({"name": name})


def test_what_looks_for_a_name_is_not_disturbed():
    """Names that nobody misspelt, hasattr, and submodules that are not loaded yet."""
    assert not hasattr(gpu_aug, "_repr_html_")
    assert not hasattr(gpu_aug, "RandomHorizontalFlip")
    with pytest.raises(AttributeError, match=r"no attribute 'xyz'$"):
        gpu_aug.xyz  # noqa: B018
    from gpu_aug.files import schema

    assert isinstance(schema, ModuleType)


def test_a_submodule_is_not_looked_for_elsewhere(monkeypatch):
    """Python asks for its name before it loads it; the tables of other libraries are not loaded for that."""
    monkeypatch.delattr(gpu_aug, "schema", raising=False)
    monkeypatch.setattr("gpu_aug.names.hint", lambda *_: pytest.fail("looked for hints"))
    from gpu_aug.files import schema

    assert isinstance(schema, ModuleType)
    monkeypatch.undo()
    with pytest.raises(AttributeError, match=r"no attribute 'a\.b'"):
        getattr(gpu_aug, "a.b")


def test_operations_have_abstract_bases():
    """As classes of users have."""

    class Named(ABC):
        @abstractmethod
        def say(self) -> str: ...

    class Abstract(HorizontalFlip, Named):
        pass

    class Mine(Abstract):
        def say(self) -> str:
            return "mine"

    assert Mine(p=1.0).say() == "mine"
    with pytest.raises(TypeError, match="abstract"):
        Abstract()
    with pytest.raises(RecipeError, match="keyword argument 'prob'"):
        Mine(prob=1.0)


def test_the_hints_name_what_the_importers_make():
    """Every class of the page of imports that becomes one operation is answered with that operation."""
    rows = re.findall(r"^\| `(\w+)\(.*?\| kept \| (\w+)\(", IMPORTED.read_text("utf-8"), re.M)
    became = {theirs: ours for theirs, ours in rows if theirs not in Operation._classes}
    spelt = {name: closest(name, Operation._classes) for name in became}
    several = {  # what it becomes depends on its arguments
        "ImageCompression": ("JPEG", "WebP"),
    }

    assert len(became) > 10
    assert {
        name: ours
        for name, ours in became.items()
        if spelt[name] != ours and ours not in several.get(name, ())
    } == {}
    assert set(ALIASES.values()) <= set(gpu_aug.__all__)


@pytest.mark.parametrize("package", [gpu_aug, readers, dali_pipes])
def test_a_star_import_gives_everything_public(package):
    """The list of each package is complete, and holds nothing that is not its own."""
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)
    own = {
        name
        for name, value in vars(package).items()
        if getattr(value, "__module__", "").partition(".")[0] == package.__name__
        and not name.startswith("_")
        and not isinstance(value, ModuleType)
    }

    assert own <= set(package.__all__) == set(names) - {"__builtins__"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: Recipe(HorizontalFlip(), Normalize()),
            "Recipe: too many positional arguments; it takes operations, and by name boxes, keypoints, masks, output: write Recipe([",
        ),
        (lambda: Recipe(HorizontalFlip()), "got HorizontalFlip(): write Recipe([first, second])"),
        (
            lambda: Recipe([CenterCrop(8)], bboxes=BoxParams()),
            "did you mean boxes instead of bboxes?",
        ),
        (lambda: OneOf(HorizontalFlip(), VerticalFlip()), "write OneOf([first, second])"),
        (lambda: Views(Recipe([CenterCrop(8)]), Recipe([CenterCrop(8)])), "write Views([first, "),
        (
            lambda: HorizontalFlip(prob=0.5),
            "argument 'prob'; it takes p: did you mean p instead of prob?",
        ),
        (lambda: RandomResizedCrop(224, 224), "write RandomResizedCrop(size=(224, 224))"),
        (lambda: CenterCrop(32, 48), "write CenterCrop(size=(32, 48))"),
        (lambda: Resize(256, 512), "write Resize(size=(256, 512)), or give max_size by name"),
        (lambda: RandomCrop(224, 224), "write RandomCrop(size=(224, 224)), or give padding by"),
        (lambda: Recipe([Resize(224)]).fixed_size, "Resize(size=(224, 224))"),
        (lambda: RandomResizedCrop(img_size=8), "did you mean size instead of img_size?"),
        (lambda: Recipe.imagenet_train(img_size=8), "argument 'img_size'; it takes size: did you"),
        (lambda: Recipe.imagenet_train(image_size=8), "did you mean size instead of"),
        (lambda: Recipe.imagenet_eval(crop_size=8), "did you mean size instead of"),
        (lambda: Recipe.imagenet_eval(resize_size=8), "did you mean resize instead of"),
        (lambda: Recipe.preset("simclr", input_size=8), "did you mean size instead of"),
        (lambda: ColorJitter(brightnes=0.4), "did you mean brightness instead of"),
        (lambda: RandomResizedCrop(height=8, width=8), "did you mean size instead of height?"),
        (lambda: ColorJitter(0.4, 0.4, 0.4, 0.1, 0.8), "saturation, hue, and by name p"),
        (lambda: RandomResizedCrop(), "RandomResizedCrop: missing a required argument: 'size'"),
        (lambda: HorizontalFlip(0.5, p=0.5), "HorizontalFlip: multiple values for argument 'p'"),
        (lambda: BoxParams(min_are=4), "did you mean min_area instead of"),
        (lambda: ClampBoundingBoxes(1, 2), "too many positional arguments; it takes none"),
        (lambda: OneOf([letterbox(8), CenterCrop(8)]), "got a list of 2: make one of them with Ra"),
    ],
)
def test_a_call_that_does_not_fit_says_what_to_write(call, words):
    """Of recipes, views, operations and their parameters."""
    with pytest.raises(RecipeError, match=re.escape(words)):
        call()


def test_constructors_show_their_arguments():
    """Editors and help() see what is to be given."""
    assert next(iter(signature(RandomResizedCrop).parameters)) == "size"
    assert list(signature(Recipe).parameters) == [
        "operations",
        "boxes",
        "keypoints",
        "masks",
        "output",
    ]


def test_lists_of_steps_are_taken_apart():
    """A recipe takes what letterbox returns as it is."""
    assert Recipe([letterbox(8), [HorizontalFlip()]]) == Recipe([*letterbox(8), HorizontalFlip()])


def test_a_range_prints_as_it_was_meant():
    """1 - 0.8 is no 0.2 in floating point; what is drawn and the fingerprint keep every bit."""
    jitter = ColorJitter(0.8, p=1 / 3)

    assert repr(jitter).startswith("ColorJitter(brightness=(0.2, 1.8), ")
    assert f"p={1 / 3}" in repr(jitter)
    assert jitter.brightness == (1 - 0.8, 1.8)
    assert jitter.differences()["brightness"] == [1 - 0.8, 1.8]


@pytest.mark.parametrize("one", [(0.5,), [0.5], 0.5])
def test_one_number_normalises_all_channels(one):
    """As in torchvision, which spreads a mean of length 1."""
    assert Normalize(one, one) == Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
