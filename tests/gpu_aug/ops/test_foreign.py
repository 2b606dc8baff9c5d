"""Steps that are not ours: transforms, modules and functions of the user in a recipe."""

import doctest
import functools
import importlib.util
import random
import sys
import threading
from contextlib import nullcontext

import albumentations as A
import kornia.augmentation as K
import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional
from torchvision.transforms import v2

from dali_pipes import Execution, Loader
from gpu_aug import (
    AlbumentationsTransform,
    BatchFunction,
    CenterCrop,
    HorizontalFlip,
    KorniaModule,
    Normalize,
    OneOf,
    RandomApply,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    TorchvisionTransform,
    compile_engine,
)
from gpu_aug.engines.seeded import seeded
from gpu_aug.errors import EngineError, TargetsError
from gpu_aug.ops.foreign import source
from gpu_aug.ops.foreign.code import describe_code
from gpu_aug.targets.move_batch import move_batch
from gpu_aug.targets.targets import Targets
from readers import open_dataset
from tests.support.engines import ENGINES, noise, render

SIZE = (24, 32)


@pytest.fixture(scope="module")
def images():
    return noise(8, SIZE)


def darken(x, seeds):
    return x * (0.5 + (seeds % 1000).float().view(-1, 1, 1, 1) / 2000)


def fade(image, **_):
    return (image * np.random.rand()).astype(np.uint8)  # noqa: NPY002 - what people write


def double(x):
    return (x * 2).clamp(0, 1)


def apply(step, images, rows, engine="kornia"):
    """Run a step on the images of these rows; each is the sample of its number."""
    recipe = Recipe([CenterCrop(SIZE), step])
    rows = np.array(rows)
    draws = recipe.draw(3, 0, rows, np.array([SIZE] * len(rows)))
    return render(engine, recipe, images[rows], draws)


RANDOM = {
    "albumentations": A.GaussNoise(p=1.0),
    "compose": A.Compose([A.HorizontalFlip(p=0.5), A.RandomBrightnessContrast(p=0.5)]),
    "code in albumentations": A.Lambda(image=fade, name="fade", p=1.0),
    "kornia": K.RandomGaussianNoise(p=0.7),
    "torchvision": v2.ColorJitter(0.5, 0.5),
    "function": darken,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RANDOM)
def test_a_sample_does_not_depend_on_its_batch(name, engine, images):
    """The same sample in another batch has the same pixels; another sample has other ones."""
    step = RANDOM[name]
    together = apply(step, images, range(8), engine)

    assert torch.equal(together[5:6], apply(step, images, [5], engine))
    assert torch.equal(together[[6, 2]], apply(step, images, [6, 2], engine))
    same = images[:1].repeat(8, 1, 1, 1)
    assert len({row.numpy().tobytes() for row in apply(step, same, range(8), engine)}) > 2


@pytest.mark.parametrize("name", RANDOM)
def test_engines_do_the_same(name, images):
    """On the same 8-bit images all engines give the same."""
    first, *others = (apply(RANDOM[name], images, range(8), engine) for engine in ENGINES)

    for other in others:
        assert (first - other).abs().max() < 1e-6


def test_the_generators_of_the_process_are_left_alone(images):
    """Whoever draws outside gets what they would have got."""
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - it is what must not move
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    apply(K.RandomGaussianNoise(p=1.0), images, [0, 1])
    apply(v2.ColorJitter(0.5), images, [0, 1])

    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002


def test_albumentations_gets_8_bits_or_floats(images):
    """Before Normalize a transform gets uint8, as its user is used to; float32 can be asked for."""
    seen = []

    def look(image, **params):  # noqa: ARG001 - Albumentations gives them
        seen.append((image.dtype.name, image.max() > 1))
        return image

    step = A.Lambda(image=look, name="look", p=1.0)
    apply(step, images, [0])
    apply(AlbumentationsTransform(step, takes="float32"), images, [0])

    assert seen == [("uint8", True), ("float32", False)]
    with pytest.raises(RecipeError, match="AlbumentationsTransform must come before Normalize"):
        Recipe([CenterCrop(8), Normalize(), A.Blur()])


SMALLER = r"must keep the shape \[.*cannot change the size"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (A.CenterCrop(4, 4), SMALLER),
        (K.CenterCrop(4), SMALLER),
        (v2.CenterCrop(4), SMALLER),
        (lambda x: x[..., :4], SMALLER),
        (lambda _: None, "must return a tensor, returned NoneType"),
    ],
    ids=["albumentations", "kornia", "torchvision", "function", "nothing"],
)
def test_a_result_that_is_no_image_of_the_size_is_an_error(step, message, engine, images):
    with pytest.raises(EngineError, match=message):
        apply(step, images, [0], engine)


def normed(x):
    """Normalize by the batch's own statistics, as torch's BatchNorm in training does."""
    return functional.batch_norm(x, None, None, training=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_gets_the_whole_batch(engine, images):
    """Statistics over it are torch's over all images that the step is applied to."""
    whole = images.permute(0, 3, 1, 2) / 255
    half = apply(RandomApply([normed], p=0.5), images, range(8), engine)
    some = [row for row in range(8) if not torch.equal(half[row], whole[row])]

    assert (apply(normed, images, range(8), engine) - normed(whole)).abs().max() < 1e-5
    assert 1 < len(some) < 8
    assert (half[some] - normed(whole[some])).abs().max() < 1e-5


@pytest.mark.parametrize("helper", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_function_gets_the_batch_of_a_loader(helper, images, tmp_path):
    """However many threads and processes there are; what is lost is no part of it."""
    (tmp_path / "a").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image.numpy()).save(tmp_path / "a" / f"{number}.png")
    (tmp_path / "a" / "3.png").write_bytes((tmp_path / "a" / "3.png").read_bytes()[:300])
    usual = {"batch_size": 8, "device": "cpu", "dtype": torch.float32, "num_threads": 2}
    usual |= {"on_bad_sample": "skip", "shuffle": "none"}
    dataset = open_dataset(tmp_path)

    with Loader(
        dataset,
        Recipe([CenterCrop(SIZE), normed]),
        execution=Execution(helper_process=helper),
        **usual,
    ) as loader:
        [batch] = loader

    kept = [row for row in range(8) if row != 3]
    assert len(batch.images) == 7
    expected = normed(images[kept].permute(0, 3, 1, 2) / 255)
    assert (batch.images - expected).abs().max() < 1e-5


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_on_images_of_several_sizes_is_refused(engine):
    """They make no batch; one image at a time is what a module gets."""
    recipe = Recipe([HorizontalFlip(), double, RandomResizedCrop(8)])

    with pytest.raises(EngineError, match=r"double must get images of one size.*RandomResizedCrop"):
        compile_engine(engine, recipe, device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda x: x + torch.rand(1), "torch"),
        (lambda x: x + np.random.rand(), "NumPy"),  # noqa: NPY002 - what people write
        (lambda x: x + random.random(), "Python's random"),
        (lambda x: x.flip(-1) if random.random() < 0.5 else x, "Python's random"),
    ],
)
def test_a_function_that_draws_by_itself_is_warned_about_once(draw, name, images):
    """Its numbers are not the sample's; those that take seeds are meant to draw."""
    random.seed(0)
    recipe = Recipe([CenterCrop(SIZE), draw])
    draws = recipe.draw(3, 0, np.arange(8), np.array([SIZE] * 8))
    engine = compile_engine("fused", recipe, device=torch.device("cpu"))
    run = functools.partial(engine.run, images, draws, torch.empty(8, 3, *SIZE))

    with pytest.warns(UserWarning, match=f"the function .* draw from the generator of {name},"):
        run()
    run()
    apply(lambda x, seeds: x + torch.rand(len(seeds), 1, 1, 1), images, range(8))


def test_a_function_beside_a_thread_that_draws_is_not_accused(images):
    """A pure function that returns its own memory: no warning, the pixels of the first call, no other thread waits."""
    memory = torch.empty(8, 3, *SIZE)

    def draw():
        with seeded(0, torch.device("cpu")):
            pass
        torch.rand(1)

    def invert(x):
        other = threading.Thread(target=draw)
        other.start()
        other.join(10)
        assert not other.is_alive()
        return torch.sub(1, x, out=memory)

    result = apply(invert, images, range(8))

    assert torch.allclose(result, 1 - images.permute(0, 3, 1, 2) / 255)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (A.Rotate(), "Rotate does move pixels"),
        (A.Compose([A.Blur(), A.HorizontalFlip()]), "Compose does move pixels"),
        (K.RandomRotation(10.0), "RandomRotation does move pixels"),
        (double, "double may move pixels.*say spatial=False"),
        (A.Blur(), None),
        (A.Compose([A.Blur()]), None),
        (K.RandomGaussianNoise(), None),
        (BatchFunction(double, spatial=False), None),
    ],
)
def test_targets_pass_steps_on_values_alone(step, message):
    """A step that moves pixels is an error, by name, since targets would not follow it."""
    recipe = Recipe([CenterCrop(SIZE), step])
    draws = recipe.draw(0, 0, np.arange(1), np.array([SIZE]))
    error = nullcontext() if message is None else pytest.raises(TargetsError, match=message)
    with error:
        [moved] = move_batch(recipe, draws, [Targets(boxes=[[1, 2, 3, 4]])])
        assert moved.boxes.tolist() == [[1, 2, 3, 4]]


def prints(*steps):
    return [Recipe([CenterCrop(8), step]).fingerprint for step in steps]


def scaled(factor):
    return lambda x: x * factor


def test_fingerprints_are_the_same_for_the_same_step():
    """Two objects that do the same."""
    for make in (
        lambda: A.GaussNoise(p=0.5),
        lambda: K.RandomGamma((0.5, 1.5), p=0.5),
        lambda: v2.ColorJitter(0.5),
        lambda: double,
        lambda: scaled(0.5),
        lambda: functools.partial(darken, seeds=torch.zeros(1)),
    ):
        first, second = prints(make(), make())
        assert first == second
    assert AlbumentationsTransform(A.Blur()) == AlbumentationsTransform(A.Blur())


def test_fingerprints_differ_where_results_can():
    """Settings, code, defaults and what a function closes over all count."""

    def with_default(x, by=2):
        return x * by

    def with_other_default(x, by=3):
        return x * by

    with_other_default.__qualname__ = with_default.__qualname__
    groups = [
        [
            A.GaussNoise(p=0.5),
            A.GaussNoise(p=0.6),
            AlbumentationsTransform(A.GaussNoise(p=0.5), takes="float32"),
        ],
        [A.Lambda(image=darken, name="a"), A.Lambda(image=double, name="a")],
        [K.RandomGamma((0.5, 1.5)), K.RandomGamma((0.5, 1.6)), K.RandomGamma((0.5, 1.5), p=0.2)],
        [
            v2.ColorJitter(0.5),
            v2.ColorJitter(0.4),
            TorchvisionTransform(v2.ColorJitter(0.5), takes="uint8"),
        ],
        [scaled(0.5), scaled(0.4), lambda x: x + 1, lambda x: x - 1, lambda x: x + 2],
        [with_default, with_other_default, double, darken],
    ]
    for steps in groups:
        found = prints(*steps)
        assert len(set(found)) == len(found)


SOURCE = """
import functools
from collections import namedtuple

import albumentations as A
import torch

Pair = namedtuple("Pair", "one two")

class Blend(torch.nn.Module):
    def forward(self, x):
        return mixed(x, 2)

class Darker(A.ImageOnlyTransform):
    def apply(self, img, **params):
        return img // 2

def mixed(x, by):
    {doc}
    return x * by{comment}

@torch.no_grad()
def plain(x):
    return mixed(x, Pair(1, {number}).two) + 1

@functools.cache
def cached(x):
    return mixed(x, 1)

def scaled(factor):
    return lambda x: mixed(x, factor), lambda x: x
"""


def steps_of(folder, name, **source):
    """The steps of a module that is written, loaded and forgotten."""
    usual = {"doc": '""', "comment": "", "number": 3}
    (folder / f"{name}.py").write_text(SOURCE.format(**{**usual, **source}))
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        first, second = module.scaled(0.5)
        steps = [module.plain, first, second, module.Blend(), module.Darker(), module.cached]
        return prints(
            *steps, A.Lambda(image=module.plain, name="x"), functools.partial(module.mixed, by=2)
        )


def test_code_may_move_and_be_commented(tmp_path):
    """Its module's name, comments, docstrings and blank space are no part of what it does."""
    first = steps_of(tmp_path, "first")

    assert steps_of(tmp_path, "second") == first
    assert steps_of(tmp_path, "third", doc='"""More words."""', comment="  # more") == first
    assert len(set(first)) == len(first)


def test_what_a_function_names_in_its_module_counts(tmp_path):
    """Another helper is another step, if the step names it."""
    usual, other = steps_of(tmp_path, "usual"), steps_of(tmp_path, "other", comment=" + 1")
    same = [one == two for one, two in zip(usual, other, strict=True)]

    assert same == [False, False, True, False, True, False, False, False]
    assert steps_of(tmp_path, "third", number=4)[1:6] == usual[1:6]


def test_code_without_source_says_so():
    """What exec made is known by its bytecode, which another version of Python makes in another way."""
    made = {}
    exec("def double(x): return x * 2\ndef triple(x): return x * 3", made)
    described = describe_code(made["double"])

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert described["bytecode"].startswith(f"Python {version}: ")
    assert described != describe_code(made["triple"])


def test_libraries_are_told_by_public_names():
    """Not by the private modules that they are written in, nor by what another version prints."""
    bicubic = ["torchvision.transforms.functional.InterpolationMode", "BICUBIC"]
    for value, expected in (
        (v2.functional.hflip, "torchvision.transforms.v2.functional.horizontal_flip"),
        (K.RandomGamma, "kornia.augmentation.RandomGamma"),
        (v2.InterpolationMode.BICUBIC, bicubic),
        (np.float32(0.5), describe_code(np.array(0.5, np.float32))),
    ):
        assert describe_code(value) == expected


def test_functions_are_saved_by_name(tmp_path):
    """A file holds the name; loading asks for the function, and runs nothing by itself."""
    recipe = Recipe([CenterCrop(8), OneOf([double, KorniaModule(K.RandomGamma(), name="gamma")])])
    recipe.save(tmp_path / "r.yaml")
    module = recipe.operations[1].operations[1].module
    functions = {f"{__name__}:double": double, "gamma": module}

    assert Recipe.load(tmp_path / "r.yaml", functions=functions) == recipe
    Recipe.load(tmp_path / "r.yaml", functions=functions).save(tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == (tmp_path / "r.yaml").read_text()
    with pytest.raises(
        RecipeError, match=r"r\.yaml:\d+: BatchFunction names .*:double.*functions="
    ):
        Recipe.load(tmp_path / "r.yaml")


def test_a_transform_of_albumentations_is_saved_as_it_is(tmp_path):
    """Its own description, of its own classes alone."""
    recipe = Recipe([CenterCrop(8), A.Compose([A.Blur(), A.OneOf([A.Blur(3), A.NoOp()])])])
    recipe.save(tmp_path / "r.json")

    assert Recipe.load(tmp_path / "r.json") == recipe
    text = (tmp_path / "r.json").read_text().replace('"Blur"', '"subprocess.Popen"')
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(RecipeError, match=r"subprocess\.Popen is not a class of Albumentations"):
        Recipe.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda x: x, "the function .*<lambda> cannot be written .*give it a name"),
        (
            K.RandomGamma(),
            "the module RandomGamma cannot be written .*KorniaModule\\(module, name=",
        ),
        (v2.ColorJitter(), "torchvision's ColorJitter cannot be written"),
        (A.Lambda(image=double, name="x"), "Lambda cannot be written to a file: Lambda holds code"),
    ],
)
def test_what_cannot_be_saved_says_so(tmp_path, step, message):
    """The reason, and what to do."""
    with pytest.raises(RecipeError, match=message):
        Recipe([CenterCrop(8), step]).save(tmp_path / "r.yaml")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda: K.RandomMixUpV2(), r"RandomMixUpV2 must get a batch to mix.*gpu_aug\.MixUp\(\)"),
        (lambda: K.ImageSequential(K.RandomMosaic()), r"use gpu_aug\.Mosaic\(\)"),
        (lambda: v2.CutMix(num_classes=3), r"CutMix must get a batch to mix.*gpu_aug\.CutMix\(\)"),
        (
            lambda: K.AugmentationSequential(K.RandomHorizontalFlip(same_on_batch=True)),
            "RandomHorizontalFlip same_on_batch must be False in a recipe, which draws for each",
        ),
    ],
)
def test_steps_that_need_a_batch_are_refused(step, message):
    """On single images they mix an image with itself, or draw for each image: nobody would notice."""
    with pytest.raises(RecipeError, match=message):
        Recipe([CenterCrop(8), step()])


def test_the_example_of_a_normalized_source_is_right():
    """It explains what the fingerprint of a function is made of."""
    assert doctest.testmod(source) == (0, 1)
