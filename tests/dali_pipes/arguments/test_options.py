"""The value objects of Loader's rarer arguments: what they refuse, and where earlier keywords went."""

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import (
    BlockShuffle,
    Execution,
    Heartbeat,
    ImageOptions,
    Loader,
    LoaderError,
    Monitoring,
    NumberMap,
)
from dali_pipes.arguments.choose import available_decoders
from dali_pipes.arguments.names import spelled, with_settings
from dali_pipes.preview.chosen_batches import preview_loader
from gpu_aug import RandomResizedCrop, Recipe
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

RECIPE = Recipe([RandomResizedCrop(8)])
load = loader_maker(RECIPE)

PLAIN = [
    "dataset",
    "recipe",
    "batch_size",
    "buckets",
    "sizes",
    "device",
    "decoder",
    "engine",
    "seed",
    "shuffle",
    "rank",
    "world_size",
    "dtype",
    "last_batch",
    "on_bad_sample",
    "max_bad_samples",
    "num_threads",
    "fields",
    "workers",
]

MOVED: dict[str, tuple[Any, str]] = {
    "images": ("left.png", "images=ImageOptions(fields='left.png')"),
    "channels": (5, "images=ImageOptions(channels=5)"),
    "depth": (16, "images=ImageOptions(depth=16)"),
    "maps": ({}, "images=ImageOptions(maps={})"),
    "targets": (["boxes"], "images=ImageOptions(targets=['boxes'])"),
    "max_pixels": (1 << 20, "images=ImageOptions(max_pixels=1048576)"),
    "exact": (True, "execution=Execution(exact=True)"),
    "decode": ("fast", "execution=Execution(decode='fast')"),
    "hw_decoder_load": (0.5, "execution=Execution(hw_decoder_load=0.5)"),
    "cache": ("device", "execution=Execution(cache='device')"),
    "prefetch": (0, "execution=Execution(prefetch=0)"),
    "helper_process": (True, "execution=Execution(helper_process=True)"),
    "channels_last": (False, "execution=Execution(channels_last=False)"),
    "frame_cache_bytes": (0, "execution=Execution(frame_cache_bytes=0)"),
    "heartbeat": (None, "monitoring=Monitoring(heartbeat=None)"),
    "metrics": (print, "monitoring=Monitoring(metrics=...)"),
    "audit": ("a.jsonl", "monitoring=Monitoring(audit='a.jsonl')"),
    "ledger": ("bad.jsonl", "monitoring=Monitoring(ledger='bad.jsonl')"),
    "shuffle_window": (16, "shuffle=BlockShuffle(window=16)"),
}

REFUSED: list[tuple[Callable[..., object], dict[str, Any], str]] = [
    (ImageOptions, {"channels": 0}, "channels must be a whole number from 1, got 0"),
    (ImageOptions, {"depth": 12}, "depth must be 8, 16 or 'float32', got 12"),
    (ImageOptions, {"fields": []}, "give names of fields, at least one"),
    (ImageOptions, {"fields": ["left.png", "left.png"]}, "and each of them once"),
    (ImageOptions, {"fields": {"labels": "left.png"}}, "batch.labels is something else"),
    (ImageOptions, {"fields": 3}, "fields=3 is not allowed; give fields, such as"),
    (ImageOptions, {"fields": iter(["jpg"])}, "is not allowed; give fields, such as"),
    (ImageOptions, {"fields": {"a": 3}}, "give names of fields"),
    (ImageOptions, {"maps": ["depth.png"]}, "maps=.* is not allowed; give a dictionary"),
    (ImageOptions, {"maps": {"d": "depth.png"}}, "give NumberMap.* or Flow"),
    (ImageOptions, {"maps": {"keys": NumberMap("d.png", scale=1)}}, "batch.keys is something"),
    (ImageOptions, {"targets": ["box"]}, r"targets=\['box'\] is not known; allowed are \"auto\""),
    (ImageOptions, {"targets": "boxes"}, "targets='boxes' is not known"),
    (ImageOptions, {"max_pixels": 0}, "max_pixels=0 is not allowed; give an integer of 1 or more"),
    (Execution, {"exact": "no"}, "exact='no' is not allowed; give True or False"),
    (Execution, {"channels_last": None}, "channels_last=None is not allowed"),
    (Execution, {"decode": "slow"}, 'decode=\'slow\' is not known; allowed are "exact", "fast"'),
    (Execution, {"hw_decoder_load": 65}, "hw_decoder_load=65 is not allowed; give a number from 0"),
    (Execution, {"hw_decoder_load": True}, "give a number from 0 to 1"),
    (Execution, {"hw_decoder_load": float("nan")}, "give a number from 0 to 1"),
    (Execution, {"cache": "disk"}, "cache='disk' is not known; allowed are None"),
    (Execution, {"prefetch": 0}, "prefetch=0 is not allowed; give an integer of 1 or more"),
    (Execution, {"prefetch": "all"}, "prefetch='all' is not allowed"),
    (Execution, {"helper_process": "yes"}, "helper_process='yes' is not allowed; give \"auto\""),
    (Execution, {"helper_process": -1}, "helper_process=-1 is not allowed"),
    (Monitoring, {"heartbeat": 7}, "heartbeat=7 is not known; allowed are"),
    (Monitoring, {"metrics": "text"}, "callable"),
    (
        Monitoring,
        {"audit": "run.jsonl", "ledger": "./run.jsonl"},
        "are both 'run.jsonl'; give each",
    ),
    (BlockShuffle, {"window": 0}, "window=0 is not allowed; give an integer of 1 or more"),
]


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Eight images."""
    return make_small(jpeg, 8)


def test_keywords_of_a_loader() -> None:
    """The plain ones and three value objects, with the defaults of a plain script."""
    parameters = inspect.signature(Loader).parameters
    assert [*parameters] == [*PLAIN, "images", "execution", "monitoring"]
    defaults = [parameters[name].default for name in ("images", "execution", "monitoring")]
    assert defaults == [ImageOptions(), Execution(), Monitoring()]
    kinds = (ImageOptions, Execution, Monitoring)
    fields = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    assert fields - {"fields"} | {"images", "shuffle_window"} == MOVED.keys()


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_keyword_is_refused_with_its_new_spelling(dataset: SmallDataset, name: str) -> None:
    """By Loader, by Loader.eval, and by what hands keywords on; its value is not judged first."""
    value, spelling = MOVED[name]
    said = f"{name} moved: write {spelling}"
    for call in (
        lambda: load(dataset, **{name: value}),
        lambda: Loader.eval(dataset, RECIPE, batch_size=4, **{name: value}),
        lambda: preview_loader(dataset, RECIPE, seed=0, **{name: value}),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert said in str(caught.value)


def test_several_moved_keywords_have_one_call(dataset: SmallDataset) -> None:
    """Those of one value object stand together."""
    said = r"images, channels, audit moved: write images=ImageOptions\(fields='npy', channels=5\), monitoring=Mon"
    with pytest.raises(TypeError, match=said):
        load(dataset, images="npy", channels=5, audit="a.jsonl")


@pytest.mark.parametrize(("kind", "values", "said"), REFUSED)
def test_values_that_cannot_work_are_refused(
    kind: Callable[..., object], values: dict[str, Any], said: str
) -> None:
    """When the value object is made, with what is allowed."""
    with pytest.raises(LoaderError, match=said):
        kind(**values)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"execution": 3}, r"execution=3 is not allowed; give Execution\(...\)"),
        ({"monitoring": "run.jsonl"}, r"give Monitoring\(...\)"),
        ({"execution": Execution(decode="fast"), "decoder": "dali"}, 'for decoder="cpu" alone'),
        ({"execution": Execution(hw_decoder_load=0.5)}, 'is for decoder="dali" alone'),
        ({"execution": Execution(cache="device")}, "decoder=\"cuda\" decodes, and decoder='cpu'"),
    ],
)
def test_value_objects_are_checked_against_other_arguments(
    dataset: SmallDataset, options: dict[str, Any], said: str
) -> None:
    """By the loader, which knows them all."""
    with pytest.raises(LoaderError, match=said):
        load(dataset, **{"decoder": "cpu", **options})


def test_value_objects_are_values() -> None:
    """Equal by their fields, unchangeable, given by keyword alone, and pickled for other processes."""
    images = ImageOptions(fields={"a": "a.png"}, maps={"d": NumberMap("d.png", scale=2)}, depth=16)
    monitoring = Monitoring(heartbeat=Heartbeat(folder="run"), audit=Path("a.jsonl"))
    for value in (images, Execution(prefetch=3), monitoring, BlockShuffle(window=3)):
        assert pickle.loads(pickle.dumps(value)) == value
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, None)
    with pytest.raises(TypeError, match="positional"):
        Execution(True)  # type: ignore[misc]


def test_settings_by_plain_names() -> None:
    """They change single fields of value objects, and are spelled as Python."""
    before = {"execution": Execution(exact=True), "seed": 1}
    merged = with_settings(before, {"prefetch": 4, "seed": 2, "images": "jpg", "shuffle_window": 9})
    assert merged == {
        "execution": Execution(exact=True, prefetch=4),
        "seed": 2,
        "images": ImageOptions(fields="jpg"),
        "shuffle": BlockShuffle(window=9),
    }
    assert spelled(merged) == (
        "execution=Execution(exact=True, prefetch=4), seed=2, images=ImageOptions(fields='jpg'), "
        "shuffle=BlockShuffle(window=9)"
    )


@pytest.mark.parametrize(
    ("has_gpu", "installed", "reason"),
    [
        (True, True, ""),
        (True, False, "pip install cuda-bindings"),
        (False, True, "torch sees none"),
    ],
)
def test_cuda_is_among_the_decoders(
    monkeypatch: pytest.MonkeyPatch, has_gpu: bool, installed: bool, reason: str
) -> None:
    """It takes a GPU, and NVRTC to compile its kernels; the CPU decodes anywhere."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_gpu)
    monkeypatch.setattr("dali_pipes.arguments.choose._is_importable", lambda _module: installed)

    found = available_decoders()

    assert list(found) == ["cuda", "dali", "cpu"]
    assert found["cuda"].endswith(reason)
    assert bool(found["cuda"]) == bool(reason)
    assert found["cpu"] == ""
