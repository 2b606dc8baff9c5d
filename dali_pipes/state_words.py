"""What a state says of its dataset and its recipe, for people: a few short lines, and how two of them differ."""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Any, TypedDict

from dali_pipes.steps.variants import Variants
from dali_pipes.video.clips import Clips
from gpu_aug import Recipe
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.views import Views
from readers import Dataset
from readers.dataset import Balanced, Subset
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.plural import counted
from readers.stream import is_stream

_KEY_CHARS = 80
_VALUE_CHARS = 48
_LINE_CHARS = 160
_DATASET_CHARS = 300
_MOST_SIZES = 5
_RECIPE_CHARS = 1260  # a state stays below 2 kB
_CALL = re.compile(r"(.*?)(\w+)\((.*)\)", re.DOTALL)
_OWN_STEP = (
    "; such a step is known by its code, which earlier versions told in other words: if it does what it did, load "
    "{**state, 'recipe': recipe.fingerprint}"
)
_NEXT_ARGUMENT = re.compile(r", (?=\w+=)")


class About(TypedDict):
    """A dataset and a recipe in words; nothing is decided by them.

    Attributes:
        dataset: One line.
        recipe: One line for each operation, cut where they are long or many.
    """

    dataset: str
    recipe: list[str]


def about(dataset: Dataset, variants: Variants) -> About:
    """Describe a run's dataset, whose first sample is read for its name, and its recipe."""
    return {"dataset": describe_dataset(dataset), "recipe": describe_recipe(variants)}


def describe_dataset(dataset: Dataset) -> str:
    """Return kind (of clips with their settings), number of samples and of classes, and the first sample's name."""
    if is_stream(dataset):
        return _cut(
            f"{dataset!r}, {dataset.samples_per_epoch or 'all'} samples an epoch", _DATASET_CHARS
        )
    try:
        first = dataset.fetch([0])[0].key
    except Exception:  # noqa: BLE001 - words must not keep a run from being saved
        first = "unknown"
    classes = f", {len(dataset.class_names)} classes" if dataset.class_names else ""
    own_words = isinstance(dataset, Clips | LeRobotDataset)
    kind = repr(dataset) if own_words else type(dataset).__name__
    whole = dataset
    while isinstance(whole, Subset | Balanced):
        whole = whole.whole
        kind += f" from {whole!r}" if isinstance(whole, Clips | LeRobotDataset) else ""
    return _cut(
        f"{kind} of {len(dataset)} samples{classes}, the first is {_cut(first, _KEY_CHARS)}",
        _DATASET_CHARS,
    )


def name_of(dataset: Dataset) -> str:
    """Return a dataset's own words for itself, or its class where it has none."""
    own = type(dataset).__repr__ is not object.__repr__
    return (
        repr(dataset) if own else f"{type(dataset).__name__} of {counted(len(dataset), 'sample')}"
    )


def steps_of(variants: Variants) -> str:
    """Return the names of the first recipe's operations, of views those of the first."""
    views = variants.views[0].recipes
    names = ", ".join(type(operation).__name__ for operation in views[0].operations)
    names = f"{len(views)} views, first {names}" if len(views) > 1 else names
    more = f"; {len(variants.views)} recipes in all" if len(variants.views) > 1 else ""
    return _cut(names, _LINE_CHARS - len(more)) + more


def describe_recipe(variants: Variants) -> list[str]:
    """Return a line for each operation, as ``HorizontalFlip(p=0.3)``; defaults are left out."""
    schedule, lines = variants.schedules[0], list[str]()
    if variants.sizes is not None:
        lines.append(f"sizes {shown_sizes(variants.sizes.sizes)}, of which the first has:")
    for epoch, recipe in zip(schedule.first_epochs, schedule.recipes, strict=True):
        if len(schedule) > 1:
            lines.append(f"from epoch {epoch} on:")
        lines += _lines_of_views(recipe.recipes if isinstance(recipe, Views) else (recipe,))
    kept = [_cut(line, _LINE_CHARS) for line in lines]
    while sum(map(len, kept)) > _RECIPE_CHARS:
        kept.pop()
    if len(kept) < len(lines):
        kept.append(f"and {len(lines) - len(kept)} more")
    return kept


def shown_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """Return sizes as 448x576, height first, and how many more there are."""
    shown = " ".join(f"{height}x{width}" for height, width in sizes[:_MOST_SIZES])
    return shown + (f" and {len(sizes) - _MOST_SIZES} more" if len(sizes) > _MOST_SIZES else "")


def explain_dataset(theirs: str, ours: str) -> str:
    """Say how two datasets differ, by what `describe_dataset` said of them."""
    if theirs == ours:
        return f"both are {ours}, but with other keys, sizes or labels"
    (was, _, their_data), (now, _, our_data) = theirs.partition(" of "), ours.partition(" of ")
    if their_data == our_data:
        return _change(was, now)
    return f"{theirs} in the state, {ours} here"


def explain_recipe(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Say how two recipes differ, by what `describe_recipe` said of them."""
    found = list(_changes(theirs, ours))
    if not found:
        return "in something that the lines of the state do not show"
    words = "; ".join(found[:4]) + (f"; and {len(found) - 4} more" if len(found) > 4 else "")
    if any(kind.__name__ in change for change in found for kind in _kinds_of(Foreign)):
        words += _OWN_STEP
    return words


def _kinds_of(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds_of(narrower)


def _lines_of_views(views: Sequence[Recipe]) -> Iterator[str]:
    done = 0
    for _, group in groupby(views, lambda view: view.fingerprint):
        same = list(group)
        who = f"view {done}" if len(same) == 1 else f"views {done} to {done + len(same) - 1}"
        head = f"{who}: " if len(views) > 1 else ""
        yield from (head + line for line in _lines(same[0]))
        done += len(same)


def _lines(recipe: Recipe) -> Iterator[str]:
    for operation in recipe.operations:
        yield _call(operation.differences())
    for name, params in (("boxes", recipe.boxes), ("keypoints", recipe.keypoints)):
        if params is not None:
            yield _call({"name": f"{name}={type(params).__name__}", **params.differences()})


def _call(described: Mapping[str, Any]) -> str:
    arguments = [
        f"{name}={_cut(_text(value), _VALUE_CHARS)}"
        for name, value in described.items()
        if name != "name"
    ]
    return f"{described['name']}({', '.join(arguments)})"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        if "name" in value:
            return _call(value)
        return "{" + ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _cut(text: str, most: int) -> str:
    """Shorten a text, so that different texts stay different."""
    if len(text) <= most:
        return text
    return f"{text[: most - 10]}..#{zlib.crc32(text.encode('utf-8', 'replace')):08x}"


def _changes(theirs: Sequence[str], ours: Sequence[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    for kind, start, stop, our_start, our_stop in matcher.get_opcodes():
        if kind == "equal":
            continue
        for was, now in zip_longest(theirs[start:stop], ours[our_start:our_stop]):
            if was is None:
                yield f"{now} is only here"
            elif now is None:
                yield f"{was} is only in the state"
            else:
                yield _change(was, now)


def _change(was: str, now: str) -> str:
    """Say which arguments of an operation changed; or give both where that would not be plain."""
    calls = _CALL.fullmatch(was), _CALL.fullmatch(now)
    whole = f"{was} in the state, {now} here"
    if calls[0] is None or calls[1] is None or calls[0].group(1, 2) != calls[1].group(1, 2):
        return whole
    if any("(" in call[3] for call in calls if call):
        return whole
    before, after = (_arguments(call[3]) for call in calls if call)
    changed = [
        f"{name} {before.get(name, 'as by default')} in the state, "
        f"{after.get(name, 'as by default')} here"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    return f"{calls[0][1]}{calls[0][2]} has {' and '.join(changed)}"


def _arguments(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in _NEXT_ARGUMENT.split(text) if part)
    return {name: value for name, _, value in pairs}
