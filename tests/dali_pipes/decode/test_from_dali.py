"""A user's own DALI pipeline as the decoder of a loader."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import BadSampleError, Execution, ImageOptions, Loader, LoaderError
from dali_pipes.decode.dali.user_pipeline import from_dali
from gpu_aug import CenterCrop, HorizontalFlip, MixUp, RandomResizedCrop, Recipe, Resize, Views
from readers import Dataset, open_dataset
from tests.support.loaders import images_by_index, loader_maker, rows_of
from tests.support.same_batches import assert_same
from tests.support.small import SmallDataset, make_small

pytestmark = pytest.mark.needs_dali

RANDOM = Recipe([RandomResizedCrop(24), HorizontalFlip()])
NUM_IMAGES = 20
BATCH = 5
BAD = {3: "decode", 8: "header", 9: "header", 13: "decode", 14: "decode"}


def piped(make: Callable[[Any], Any], **options: Any) -> Any:
    """Return a pipeline whose outputs are made of DALI's functions."""
    from nvidia.dali import Pipeline, fn

    usual = {"batch_size": NUM_IMAGES, "num_threads": 1, "device_id": None}
    pipeline = Pipeline(**{**usual, **options})
    with pipeline:
        made = make(fn)
        pipeline.set_outputs(*(made if isinstance(made, tuple) else (made,)))
    return pipeline


def build(make: Callable[[Any, Any], Any] | None = None, **options: Any) -> Any:
    """Return a pipeline with the input "encoded"; `make` says what comes after the decoder."""

    def decode(fn: Any) -> Any:
        images = fn.decoders.image(fn.external_source(name="encoded"))
        return make(fn, images) if make else images

    return piped(decode, **options)


def declared(**options: Any) -> Any:
    """Return a pipeline that says what its input is like."""
    return piped(lambda fn: fn.decoders.image(fn.external_source(name="encoded", **options)))


def halved(fn: Any, images: Any) -> Any:
    """Half as high and a third as wide."""
    shape = images.shape(dtype=types().FLOAT)
    return fn.resize(images, resize_y=shape[0] / 2, resize_x=shape[1] / 3)


def types() -> Any:
    from nvidia.dali import types

    return types


usual_loader = loader_maker(batch_size=BATCH, dtype=torch.float32, seed=3, num_threads=2)


def load(dataset: Dataset, pipeline: Any = None, recipe: Any = RANDOM, **options: Any) -> Loader:
    """A loader with a pipeline, or our own decoder."""
    decoder = "cpu" if pipeline is None else from_dali(pipeline)
    return usual_loader(dataset, recipe, decoder=decoder, **options)


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Twenty sound pictures."""
    return make_small(jpeg, NUM_IMAGES)


@pytest.fixture(scope="module")
def faulty(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Twenty pictures, five of them bad in different ways, two of these neighbours."""
    images = [jpeg(60 + number, 50, seed=number) for number in range(NUM_IMAGES)]
    for number in (3, 13, 14):
        images[number] = images[number][: len(images[number]) // 2]
    images[8], images[9] = b"<html>404 not found</html>", b"\xff\xd8\xff"
    return SmallDataset(images, [0] * NUM_IMAGES, name="faulty")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 1},
        {"batch_size": 7, "last_batch": "partial"},
        {"batch_size": 3, "last_batch": "pad", "shuffle": "none"},
        {"rank": 1, "world_size": 2},
        {"batch_size": 1, "rank": 0, "world_size": 3, "last_batch": "partial"},
        {"recipe": Recipe([Resize((30, 40)), RandomResizedCrop(16)])},
        {"recipe": Views([RANDOM, Recipe([CenterCrop(20)])])},
        {"recipe": Recipe([RandomResizedCrop(24), MixUp(num_classes=3)])},
    ],
    ids=["usual", "one", "partial", "pad", "rank", "none left", "resize", "views", "mixing"],
)
@pytest.mark.parametrize("depth", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_pipeline_that_decodes_is_our_decoder(dataset, options, depth):
    """On the CPU DALI decodes to our pixels, so all batches of two epochs are ours to the bit."""
    loader, ours = (
        load(dataset, pipeline, **options) for pipeline in (build(prefetch_queue_depth=depth), None)
    )
    for _ in range(2):
        assert_same(list(loader), list(ours))
    with pytest.raises(AssertionError):
        assert_same(list(loader), list(load(dataset, **options)))


def test_windows_are_drawn_from_the_sizes_that_come_out(dataset):
    """As if the pipeline's pictures had been stored: their PNGs give the same batches."""
    pipeline = build(halved, prefetch_queue_depth=1)
    pipeline.build()
    (output,) = pipeline.run(encoded=[np.frombuffer(data, np.uint8) for data in dataset.images])
    stored = []
    for picture in output:
        stream = io.BytesIO()
        Image.fromarray(np.asarray(picture)).save(stream, "PNG")
        stored.append(stream.getvalue())
    assert np.asarray(output[0]).shape == (20, 16, 3)

    actual = list(load(dataset, build(halved)))
    assert_same(actual, list(load(SmallDataset(stored, dataset.labels, name="small"))))
    with pytest.raises(AssertionError):
        assert_same(actual, list(load(dataset)))


def test_a_run_is_resumed(dataset):
    """By a loader with a new pipeline, and by one without."""
    whole = list(load(dataset, build()))
    loader = load(dataset, build())
    batches = iter(loader)
    begun = [next(batches), next(batches)]
    state = loader.state_dict()
    for pipeline in (build(), None):
        again = load(dataset, pipeline)
        again.load_state_dict(state)
        assert_same([*begun, *again], whole)


@pytest.mark.parametrize("name", ["dataset", "faulty"])
def test_a_loop_that_was_left_leaves_nothing_behind(name, request):
    """Neither batches under way nor those that a bad one pushed ahead: the next loop is the next epoch."""
    data = request.getfixturevalue(name)
    options = {"batch_size": 2, "shuffle": "none", "on_bad_sample": "skip", "max_bad_samples": 100}
    loader = load(data, build(prefetch_queue_depth=3), **options)
    list(zip(range(2), loader, strict=False))
    ours = load(data, **options)
    ours.set_epoch(1)
    assert_same(list(loader), list(ours))


def test_a_pipeline_serves_one_loop_at_a_time(dataset):
    """A second one is refused, and let in when the first has ended."""
    loader = load(dataset, build())
    other = Loader(
        dataset, RANDOM, batch_size=BATCH, device="cpu", decoder=loader._setup.options.user_pipeline
    )
    first = iter(loader)
    next(first)
    with pytest.raises(LoaderError, match="serves another loop"):
        next(iter(other))
    list(first)
    assert len(list(other)) == 4


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_bad_samples_are_dealt_with(faulty, batch_size, policy):
    """Wherever they stand, neighbours, substitutes and records are those of our decoder."""
    options = {"batch_size": batch_size, "last_batch": "partial", "on_bad_sample": policy}
    options |= {"max_bad_samples": 100, "shuffle": "none"}
    loader, ours = load(faulty, build(), **options), load(faulty, **options)
    for _ in range(2):
        assert_same(list(loader), list(ours))
    records = {record.index: record.stage for record in loader.bad_samples}
    assert records == {record.index: record.stage for record in ours.bad_samples} == BAD


def test_raise_says_what_dali_said(faulty):
    """The batches before come first; the error names sample, stage and DALI's reason."""
    loader = load(faulty, build(), on_bad_sample="raise", batch_size=1, shuffle="none")
    batches = iter(loader)
    assert [next(batches).indices.tolist() for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(
        BadSampleError, match=r"sample 3 \(faulty/3\) is bad \(decode: DALI: Failed to decode"
    ):
        next(batches)


def test_batches_without_a_sound_sample_are_empty(faulty):
    """DALI is not run for them."""
    data = SmallDataset([b"", b"", *faulty.images[:2]], [0] * 4, name="half")
    loader = load(data, build(), batch_size=2, on_bad_sample="skip", shuffle="none")
    assert [batch.indices.tolist() for batch in loader] == [[], [2, 3]]


@pytest.fixture
def annotated(tmp_path: Path, jpeg: Callable[..., bytes]) -> Dataset:
    """Eight pictures with a mask and boxes each; the mask of one has another size."""
    for number in range(8):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(40 + number, 50, seed=number))
        mask = Image.fromarray(np.full((40 + number, 50 if number != 2 else 9), number, np.uint8))
        mask.save(tmp_path / f"{number}.mask.png")
        boxes = {"boxes": [[5, 6, 30 + number, 40]], "labels": [number]}
        (tmp_path / f"{number}.json").write_text(json.dumps(boxes))
    return open_dataset(tmp_path)


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("place", [None, 0], ids=["cpu", "way of a gpu"])
def test_targets_move_with_the_images(annotated, policy, place):
    """Masks and boxes are those of our decoder; a sample whose mask does not fit is bad."""
    options = {"batch_size": 4, "on_bad_sample": policy, "shuffle": "none"}
    loader, ours = load(annotated, build(), **options), load(annotated, **options)
    assert loader._setup.options.user_pipeline is not None
    loader._setup.options.user_pipeline.device_id = place
    for one, other in zip(loader, ours, strict=True):
        assert one.keys == other.keys
        assert (one.images - other.images).abs().max() * 255 <= (0 if place is None else 1.01)
        assert torch.equal(one.masks, other.masks)
        assert all(map(torch.equal, one.boxes, other.boxes))
    assert [record.index for record in loader.bad_samples] == [2]
    assert loader.bad_samples == ours.bad_samples


def test_targets_of_another_size_are_refused(annotated):
    """Nobody knows where they belong; without targets it works."""
    options = {"batch_size": 4, "on_bad_sample": "skip"}
    with pytest.raises(LoaderError, match=r"makes \d+x17 of .* stored for \d+x50; leave resizing"):
        list(load(annotated, build(halved), **options))
    assert (
        len(list(load(annotated, build(halved), images=ImageOptions(targets=[]), **options))) == 2
    )


@pytest.mark.parametrize("recipe", [RANDOM, Recipe([HorizontalFlip(), CenterCrop(20)])], ids=str)
@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_the_way_of_a_gpu_on_the_cpu(faulty, recipe, policy):
    """Images on the engines' device are resampled there, in float32: within a step of 8 bits."""
    options = {"on_bad_sample": policy, "max_bad_samples": 100, "last_batch": "partial"}
    options |= {"batch_size": 3, "rank": 0, "world_size": 3}  # the last batch of this rank is empty
    loader = load(faulty, build(), recipe, **options)
    assert loader._setup.options.user_pipeline is not None
    loader._setup.options.user_pipeline.device_id = 0
    actual, expected = list(loader), list(load(faulty, recipe=recipe, **options))
    assert [batch.keys for batch in actual] == [batch.keys for batch in expected]
    for (_, one), (_, other) in zip(rows_of(actual), rows_of(expected), strict=True):
        assert (one - other).abs().max() * 255 <= 1.01
    assert (rows_of(actual)[0][1] - rows_of(expected)[1][1]).abs().max() * 255 > 10


@pytest.mark.needs_cuda
@pytest.mark.parametrize("device", ["cpu", "mixed"])
def test_images_on_a_gpu(faulty, device):
    """A pipeline that decodes on the GPU, and one whose images come from the CPU."""
    how = {"device": device, "jpeg_fancy_upsampling": True}
    pipeline = piped(
        lambda fn: fn.decoders.image(fn.external_source(name="encoded"), **how), device_id=0
    )
    options = {"on_bad_sample": "skip", "max_bad_samples": 100}
    loader = load(faulty, pipeline, device="cuda:0", **options)
    for _ in range(2):
        batches = list(loader)
    ours = load(faulty, **options)
    ours.set_epoch(1)
    found, expected = images_by_index(batches), images_by_index(ours)
    more = found.keys() - expected.keys()
    assert found.keys() >= expected.keys()
    assert more <= ({3, 13, 14} if device == "mixed" else set())  # nvJPEG accepts what is cut short
    for index, other in expected.items():  # nvJPEG's pixels are not libjpeg's
        assert (found[index] - other).abs().max() * 255 <= 8


def test_explain_tells_of_the_pipeline(dataset):
    """So that nobody wonders whose decoder it is."""
    loader = load(dataset, build())
    assert "decoder dali: a pipeline of your own, with images on the CPU" in loader.explain()
    assert loader.decoder == "dali"


def that_has_run() -> Any:
    pipeline = build(prefetch_queue_depth=1)
    pipeline.build()
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "JPEG")
    pipeline.run(encoded=[np.frombuffer(picture.getvalue(), np.uint8)])
    return pipeline


def that_is_a_decoder() -> Any:
    pipeline = build()
    from_dali(pipeline)
    return pipeline


def deserialized() -> Any:
    from nvidia.dali import Pipeline

    options = {"exec_dynamic": True, "exec_async": True, "exec_pipelined": True}
    return Pipeline.deserialize(build().serialize(), **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: "pipeline", "'pipeline' is not a pipeline of DALI"),
        (
            lambda: piped(lambda fn: fn.readers.file(files=[__file__], name="Photos")[0]),
            r"reads by itself \(Photos\)",
        ),
        (
            lambda: piped(lambda fn: fn.external_source(source=lambda: [np.zeros(4, np.uint8)])),
            "has a source, but the loader feeds it; leave source out",
        ),
        (
            lambda: build(lambda fn, x: fn.resize(x, size=fn.external_source(name="size"))),
            "must have one input, but has 'encoded', 'size'",
        ),
        (
            lambda: build(lambda _, images: (images, images)),
            "has 2 outputs, but only images are taken",
        ),
        (
            lambda: build(lambda fn, x: fn.flip(x, horizontal=fn.random.coin_flip())),
            r"random numbers of its own \(CoinFlip\)",
        ),
        (that_has_run, "has run already"),
        (lambda: build(exec_dynamic=False), "does not use DALI's default executor"),
        (that_is_a_decoder, "is a decoder already; give what from_dali returned"),
        (deserialized, "was deserialized does not tell what it does"),
    ],
    ids=[
        *("text", "reader", "source", "inputs", "outputs", "random", "used", "executor"),
        *("decoder", "deserialized"),
    ],
)
def test_pipelines_that_cannot_work_are_refused(make, words):
    """In words, before anything runs."""
    with pytest.raises(LoaderError, match=words):
        from_dali(make())


@pytest.mark.parametrize(
    ("dtype", "more", "words"),
    [("FLOAT", {}, "expected data of type float"), ("UINT8", {"ndim": 2}, "with 2 dimensions")],
)
def test_an_input_that_is_declared_wrongly_is_told_by_dali(dataset, dtype, more, words):
    """Every sample is bad then, and DALI's message is the reason."""
    pipeline = declared(dtype=getattr(types(), dtype), **more)
    with pytest.raises(BadSampleError, match=words):
        next(iter(load(dataset, pipeline)))


@pytest.mark.parametrize("depth", [1, 2])
def test_an_input_that_is_declared_rightly_is_taken(dataset, depth):
    """So is a pipeline that saves checkpoints of its own."""
    kind = {"name": "jpegs", "dtype": types().UINT8, "ndim": 1, "layout": "B"}
    options = {"prefetch_queue_depth": depth, "enable_checkpointing": True, "batch_size": BATCH}
    pipeline = piped(lambda fn: fn.decoders.image(fn.external_source(**kind)), **options)
    assert_same(list(load(dataset, pipeline)), list(load(dataset)))


def test_a_pipeline_that_was_fed_by_others_is_refused(dataset):
    """Its images would be other samples'; the loader can be closed then."""
    pipeline = build(prefetch_queue_depth=1)
    pipeline.build()
    pipeline.feed_input("encoded", [np.frombuffer(dataset.images[0], np.uint8)])
    loader = load(dataset, pipeline)
    with pytest.raises(LoaderError, match="makes 1 images of 5; let nothing else feed it"):
        next(iter(loader))
    loader.close()
    assert not loader._setup.options.user_pipeline._busy


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda fn, images: fn.cast(images, dtype=types().FLOAT), "FLOAT"),
        (lambda _, images: images[:, :, :1], r"UINT8 \[\d+, \d+, 1\]"),
        (lambda _, images: images[:0], r"UINT8 \[0, \d+, 3\]"),
    ],
    ids=["float", "gray", "nothing"],
)
def test_what_is_no_image_is_refused(dataset, make, words):
    """Not handed to the recipe, and not counted as a bad sample."""
    with pytest.raises(LoaderError, match=words + r".* of small/\d+, but images must be uint8"):
        list(load(dataset, build(make), on_bad_sample="skip"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 21}, "batch_size=20, but the loader works on up to 21"),
        ({"batch_size": 20, "recipe": Recipe([CenterCrop(20), MixUp(num_classes=3)])}, "up to 22"),
        ({"execution": Execution(helper_process=True)}, 'not allowed with decoder="dali"'),
    ],
    ids=["batch", "group", "helper"],
)
def test_loaders_that_do_not_fit_are_refused(jpeg, options, words):
    """The message says what would fit."""
    with pytest.raises(LoaderError, match=words):
        load(make_small(jpeg, 30), build(), **options)


def test_clips_are_refused():
    """They are frames of videos, and a pipeline makes one image of each sample."""
    with pytest.raises(LoaderError, match="decodes images, not clips"):
        from_dali(build()).require_fits(1, clips=True)


def test_images_on_another_device_are_refused(dataset):
    """Where they are is the pipeline's affair; a loader on the CPU does not fetch them."""
    decoder = from_dali(build())
    decoder.device_id = 1
    with pytest.raises(LoaderError, match=r'on GPU 1, but device=.*use device="cuda:1"'):
        Loader(dataset, RANDOM, batch_size=BATCH, device="cpu", decoder=decoder)


def test_what_needs_a_pipeline_of_its_own(dataset: SmallDataset) -> None:
    """A replay is refused; headroom is measured, but not beside a loop."""
    loader = load(dataset, build())
    with pytest.raises(LoaderError, match="replay is not possible with a pipeline of from_dali"):
        loader.replay(0, 0)
    assert loader.headroom(lambda _: None, steps=1, rounds=1, kept=1).num_kept == 1
    batches = iter(loader)
    next(batches)
    with pytest.raises(LoaderError, match="this pipeline serves another loop"):
        loader.headroom(lambda _: None, steps=1, rounds=1, kept=1)
    assert len(list(batches)) == len(loader) - 1
