"""State of a run: a small dictionary that belongs to one dataset, recipe and seed, and how two of them differ."""

import hashlib
import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Any, NotRequired, TypedDict

import numpy as np

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import StateMismatchError
from dali_pipes.runs.attempt import is_attempt
from dali_pipes.steps.schedule import MAX_EPOCH, Consumed
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

_log = logging.getLogger(f"gpu_aug.{__name__}")

# Changes only if the order or the draws of a given seed change: then no older state fits.
VERSION = 1

# Positions of an order that its check looks at: a few microseconds, whatever the length.
_PROBES = 64
# Lengths in characters. An error stays readable:
_VALUE_IN_ERROR, _HASH_IN_ERROR, _CHANGES_IN_ERROR = 80, 12, 4
# ... and a state below 2 kB of JSON, so that it fits beside a model in any checkpoint:
_KEY, _ARGUMENT, _LINE, _DATASET, _RECIPE = 80, 48, 160, 300, 1260
# Sizes that are listed before "and 3 more".
_MOST_SIZES = 5


class About(TypedDict):
    """Dataset and recipe in words. They explain a difference; they are never compared to find one.

    Attributes:
        dataset: One line.
        recipe: One line per operation; long lines and long lists are cut.
    """

    dataset: str
    recipe: list[str]


class RunIdentity(TypedDict):
    """Entries of a state that must be equal to those of the loader that loads it.

    Attributes:
        version: Version of the state and of the order and draws behind it.
        dataset: Fingerprint of the dataset.
        length: Positions in an epoch.
        recipe: Fingerprint of the recipe.
        seed: Seed of the order and the draws.
        shuffle: Name of the order.
        order: 16 hex digits over some positions of epoch 0; see `order_check`.
    """

    version: int
    dataset: str
    length: int
    recipe: str
    seed: int
    shuffle: str
    order: NotRequired[str]


class LoaderState(RunIdentity):
    """Everything a run needs to resume, on any number of ranks and with any batch size.

    Less than 2 kB of JSON and one number per bucket, however long the run, the dataset or the recipe. States of earlier
    versions lack `order`, `about` and `attempt`, and load all the same.

    Attributes:
        epoch: Counts from 0.
        consumed: Positions of the epoch's order that all ranks together have received.
        buckets: The same for each bucket, in the order of their sizes, if samples are in buckets.
        about: Dataset and recipe in words, to explain a difference; not compared.
        stream: Where reading resumes in a stream; see `StreamSteps.state`.
        attempt: Name of the start of the run that saved it, for its audit; "" without one. Not compared.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> state = loader.state_dict()
        >>> state["epoch"], state["consumed"]
        (0, 0)
    """

    epoch: int
    consumed: int
    buckets: NotRequired[list[int]]
    about: NotRequired[About]
    stream: NotRequired[dict[str, Any]]
    attempt: NotRequired[str]


def identity_of(setup: Setup) -> RunIdentity:
    """Return the entries that every state of this loader must have."""
    order, options = setup.fetcher.order, setup.options
    return {
        "version": VERSION,
        "dataset": options.dataset.fingerprint,
        "length": len(order),  # also if replaced steps end an epoch earlier
        "recipe": setup.fetcher.variants.fingerprint,
        "seed": setup.fetcher.seed,
        "shuffle": order.name,
        "order": order_check(lambda positions: order.places(0, positions), len(order)),
    }


def order_check(look_up: Callable[[np.ndarray], Sequence[np.ndarray]], length: int) -> str:
    """Return 16 hex digits over 64 positions of an order, which distinguish it from almost all others.

    Args:
        look_up: Returns arrays with what the order has at positions, int64 [n], of epoch 0.
        length: Positions in an epoch, at least 1.
    """
    positions = np.unique(np.linspace(0, length - 1, _PROBES).astype(np.int64))
    digest = hashlib.sha256()
    for array in look_up(positions):
        digest.update(np.asarray(array, np.int64).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def check_state(
    state: Mapping[str, Any], own: Mapping[str, Any], lengths: Sequence[int] = ()
) -> tuple[int, Consumed]:
    """Compare a saved state with a loader's own and return its epoch and consumed count.

    Args:
        state: The saved state.
        own: The loader's present state; only the entries of `RunIdentity` are compared.
        lengths: Samples in each bucket, if there are buckets.

    Raises:
        StateMismatchError: The state is incomplete or damaged, or belongs to another run.
    """
    entries = state if isinstance(state, Mapping) else {}
    required = (name for name in LoaderState.__annotations__ if name not in _OPTIONAL)
    if missing := [name for name in required if name not in entries]:
        raise StateMismatchError(
            f"this is not a loader's state: it lacks {', '.join(missing)}; give what loader.state_dict() returned"
        )
    names = [name for name in _IDENTITY if not _is_equal(state.get(name, own[name]), own[name])]
    if {"length", "seed", "shuffle"}.intersection(names):
        names = [name for name in names if name != "order"]  # it follows from them
    if names:
        differences = "; ".join(_difference(name, state, own) for name in names)
        raise StateMismatchError(
            f"the state belongs to another run: {differences}; resume with what the state was saved with, or start anew"
        )
    epoch, consumed = state["epoch"], state["consumed"]
    is_possible = _are_counts((epoch, consumed), (MAX_EPOCH, own["length"]))
    _require(
        is_possible,
        f"position is impossible: epoch={_shown(epoch)}, consumed={_shown(consumed)}, allowed are whole numbers with "
        f"0 <= epoch <= {MAX_EPOCH} and 0 <= consumed <= {own['length']}",
    )
    attempt = state.get("attempt", "")
    _require(
        is_attempt(attempt),
        f"attempt is impossible: attempt={_shown(attempt)}, allowed are a number and 8 hex digits, such as "
        "'3-0c51fa27', or ''",
    )
    return epoch, _consumed_of_buckets(state, consumed, lengths) if lengths else consumed


def consumed_in(state: Mapping[str, Any]) -> Consumed:
    """Return the consumed positions of a state that fits."""
    return tuple(state["buckets"]) if "buckets" in state else int(state["consumed"])


def at_start_of(state: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return a state of the same run at the start of an epoch."""
    moved = {**state, "epoch": epoch, "consumed": 0}
    return moved | ({"buckets": [0] * len(state["buckets"])} if "buckets" in state else {})


_IDENTITY = tuple(RunIdentity.__annotations__)
_OPTIONAL = LoaderState.__optional_keys__


def _consumed_of_buckets(
    state: Mapping[str, Any], consumed: int, lengths: Sequence[int]
) -> Consumed:
    given = state.get("buckets")
    counts = given if isinstance(given, list | tuple) else ()
    _require(
        _are_counts(counts, lengths),
        f"buckets are impossible: buckets={_shown(given)}, allowed are {len(lengths)} whole numbers, none larger than "
        "its bucket",
    )
    _require(
        sum(counts) == consumed,
        f"position is impossible: consumed={consumed}, but its buckets have {sum(counts)} together",
    )
    return tuple(counts)


def _require(is_possible: bool, fault: str) -> None:
    if not is_possible:
        raise StateMismatchError(f"the state's {fault}; the file may be damaged")


def _are_counts(values: Sequence[Any], most: Sequence[int]) -> bool:
    """Whether values are integers from 0 to `most`; True is none, which an edited file may have."""
    return len(values) == len(most) and all(
        type(value) is int and 0 <= value <= limit
        for value, limit in zip(values, most, strict=True)
    )


def _is_equal(theirs: Any, ours: Any) -> bool:
    """Whether two entries are equal and of one type: True is not 1."""
    return type(theirs) is type(ours) and bool(theirs == ours)


def _difference(name: str, state: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    theirs, ours = state[name], own[name]
    if name in ("dataset", "recipe", "order"):  # hashes
        theirs, ours = str(theirs)[:_HASH_IN_ERROR], str(ours)[:_HASH_IN_ERROR]
    plain = f"{name} is {_shown(theirs)} in the state and {_shown(ours)} here"
    words = _explanation(name, state.get("about"), own.get("about"))
    return f"{plain} ({words})" if words else plain


def _shown(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an int of thousands of digits, or whatever else a file held
        return f"a {type(value).__name__}"
    return text if len(text) <= _VALUE_IN_ERROR else f"{text[:_VALUE_IN_ERROR]}..."


def _explanation(name: str, theirs: Any, ours: Any) -> str:
    """Explain a difference by the `about` of the state and of the loader; "" if they do not show it."""
    if name == "order":
        return "another block shuffle or mixture, or another version's order"
    try:
        if name == "dataset":
            return explain_dataset(str(theirs[name]), ours[name])
        if name == "recipe":
            return explain_recipe([str(line) for line in theirs[name]], ours[name])
    except (KeyError, TypeError):  # a state of an earlier version, or one that was edited
        pass
    return ""


def explain_dataset(theirs: str, ours: str) -> str:
    """Explain how two datasets differ, by their lines of `describe_dataset`."""
    if theirs == ours:
        return f"both are {ours}, but with other keys, sizes or labels"
    return f"{theirs} in the state, {ours} here"


def explain_recipe(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Explain how two recipes differ, by their lines of `describe_recipe`."""
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    changes = [
        f"{was or 'nothing'} in the state, {now or 'nothing'} here"
        for kind, start, stop, our_start, our_stop in matcher.get_opcodes()
        if kind != "equal"
        for was, now in zip_longest(theirs[start:stop], ours[our_start:our_stop])
    ]
    if not changes:
        return "in something that the lines of the state do not show"
    more = len(changes) - _CHANGES_IN_ERROR
    words = "; ".join(changes[:_CHANGES_IN_ERROR]) + (f"; and {more} more" if more > 0 else "")
    if any(kind.__name__ in change for change in changes for kind in _kinds_of(Foreign)):
        words += (
            "; such a step is identified by its code, which earlier versions described in other words: if it does what "
            "it did, load {**state, 'recipe': recipe.fingerprint}"
        )
    return words


def _kinds_of(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds_of(narrower)


def about(dataset: Dataset, variants: Variants) -> About:
    """Describe a run's dataset, whose first sample is read for its name, and its recipe."""
    return {"dataset": describe_dataset(dataset), "recipe": describe_recipe(variants)}


def describe_dataset(dataset: Dataset) -> str:
    """Return kind (of clips with their settings), number of samples and of classes, and the first sample's name."""
    if is_stream(dataset):
        return _cut(f"{dataset!r}, {dataset.samples_per_epoch or 'all'} samples an epoch", _DATASET)
    try:
        first = dataset.fetch([0])[0].key
    except Exception as error:  # noqa: BLE001 - storage that fails must not keep a run from being saved
        _log.warning(
            "the state lacks the name of the first sample, which cannot be read: %s", error
        )
        first = "unknown"
    classes = f", {len(dataset.class_names)} classes" if dataset.class_names else ""
    has_settings = isinstance(dataset, Clips | LeRobotDataset)
    kind = repr(dataset) if has_settings else type(dataset).__name__
    source = dataset
    while isinstance(source, Subset | Balanced):
        source = source.whole
        kind += f" from {source!r}" if isinstance(source, Clips | LeRobotDataset) else ""
    line = f"{kind} of {len(dataset)} samples{classes}, the first is {_cut(first, _KEY)}"
    return _cut(line, _DATASET)


def describe_recipe(variants: Variants) -> list[str]:
    """Return a line for each operation, as ``HorizontalFlip(p=0.3)``, without arguments at their defaults."""
    schedule, lines = variants.schedules[0], list[str]()
    if variants.sizes is not None:
        lines.append(f"sizes {shown_sizes(variants.sizes.sizes)}, of which the first has:")
    for epoch, recipe in zip(schedule.first_epochs, schedule.recipes, strict=True):
        if len(schedule) > 1:
            lines.append(f"from epoch {epoch} on:")
        lines += _lines_of_views(recipe.recipes if isinstance(recipe, Views) else (recipe,))
    cut = [_cut(line, _LINE) for line in lines]
    while sum(map(len, cut)) > _RECIPE:
        cut.pop()
    return cut if len(cut) == len(lines) else [*cut, f"and {len(lines) - len(cut)} more"]


def name_of(dataset: Dataset) -> str:
    """Return a dataset's repr, or its class and length if it has none of its own."""
    if type(dataset).__repr__ is not object.__repr__:
        return repr(dataset)
    return f"{type(dataset).__name__} of {counted(len(dataset), 'sample')}"


def steps_of(variants: Variants) -> str:
    """Return the names of the first recipe's operations, of views those of the first."""
    views = variants.views[0].recipes
    names = ", ".join(type(operation).__name__ for operation in views[0].operations)
    names = f"{len(views)} views, first {names}" if len(views) > 1 else names
    more = f"; {len(variants.views)} recipes in all" if len(variants.views) > 1 else ""
    return _cut(names, _LINE - len(more)) + more


def shown_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """Return sizes as 448x576, height first, and how many more there are."""
    shown = " ".join(f"{height}x{width}" for height, width in sizes[:_MOST_SIZES])
    return shown + (f" and {len(sizes) - _MOST_SIZES} more" if len(sizes) > _MOST_SIZES else "")


def _lines_of_views(views: Sequence[Recipe]) -> Iterator[str]:
    done = 0
    for _, group in groupby(views, lambda view: view.fingerprint):
        same = list(group)
        numbers = f"view {done}" if len(same) == 1 else f"views {done} to {done + len(same) - 1}"
        head = f"{numbers}: " if len(views) > 1 else ""
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
        f"{name}={_cut(_text(value), _ARGUMENT)}"
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
    """Shorten a text; a checksum at its end keeps different texts different."""
    if len(text) <= most:
        return text
    return f"{text[: most - 10]}..#{zlib.crc32(text.encode('utf-8', 'replace')):08x}"
