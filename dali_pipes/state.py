"""Make and check the state of a run: a small dictionary that belongs to one dataset, recipe and seed."""

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import ndiff
from typing import Any, NotRequired, TypedDict

import numpy as np

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import StateMismatchError
from dali_pipes.runs.attempt import is_attempt
from dali_pipes.steps.schedule import MAX_EPOCH, Consumed
from dali_pipes.steps.variants import Variants
from gpu_aug.views import CameraRecipes, Views
from readers import Dataset, Mixture
from readers.order.shuffle import AnyOrder
from readers.plural import counted

# Increased only if the order or the draws of a given seed change: then older states are invalid.
VERSION = 1

# Positions that `order_check` covers: takes a few microseconds, whatever the length.
_PROBES = 64
# Lengths in characters that keep an error readable:
_HASH_IN_ERROR, _LINES_IN_ERROR = 12, 8
# ... and keep a state below 2 kB of JSON, so that it fits into any checkpoint:
_ARGUMENT, _LINE, _DATASET, _RECIPE = 48, 160, 300, 1260
# Number of sizes that are listed before "and 3 more".
_MOST_SIZES = 5


class About(TypedDict):
    """Descriptions of dataset and recipe. They explain a difference, but are never compared to find one.

    Attributes:
        dataset: Description of the dataset in one line.
        recipe: Description of the recipe, one line per operation; long lines and long lists are shortened.
    """

    dataset: str
    recipe: list[str]


class RunIdentity(TypedDict):
    """The entries of a state that must equal those of the loader that loads it.

    Attributes:
        version: Version of the state, and of the order and draws of a seed.
        dataset: Fingerprint of the dataset.
        length: Count of positions in an epoch.
        recipe: Fingerprint of the recipe.
        seed: Seed of the order and the draws.
        shuffle: Name of the order.
        order: 16 hex digits: a digest of some positions of epoch 0; see `order_check`.
    """

    version: int
    dataset: str
    length: int
    recipe: str
    seed: int
    shuffle: str
    order: NotRequired[str]


class LoaderState(RunIdentity):
    """Everything that a run needs to resume, on any number of ranks and with any batch size.

    It has less than 2 kB of JSON plus one number per bucket, whatever the size of the run, the dataset or the recipe. The
    state of a mixture with weights also has one number per dataset, and as many for each change of the weights. States of
    earlier versions without `order`, `about`, `attempt` and `weights` can be loaded.

    Attributes:
        epoch: The epoch, counted from 0.
        consumed: Count of the positions of the epoch's order that all ranks together have received.
        buckets: If samples are in buckets: for each bucket, the count of its positions that all ranks together have
            received, in the order of the buckets' sizes.
        weights: If the dataset is a mixture with weights: all weights that the run has had, as lists of the epoch, the
            position in it, and the weights by epoch; see `readers.order.proportion.WeightChange`.
        about: Descriptions of dataset and recipe, to explain a difference; not compared.
        stream: Where reading resumes in a stream; see `StreamSteps.state`.
        attempt: Name of the attempt of the run that saved the state, for the audit; "" if no attempt has started. Not
            compared.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> state = loader.state_dict()
        >>> state["epoch"], state["consumed"]
        (0, 0)
    """

    epoch: int
    consumed: int
    buckets: NotRequired[list[int]]
    weights: NotRequired[list[Any]]
    about: NotRequired[About]
    stream: NotRequired[dict[str, Any]]
    attempt: NotRequired[str]


def identity_of(setup: Setup) -> RunIdentity:
    """Return the entries that every state of this loader must have."""
    order, options = setup.fetcher.order, setup.options
    return {
        "version": VERSION,
        "dataset": options.dataset.fingerprint,
        "length": len(order),  # the full length, even if replaced steps end an epoch earlier
        "recipe": setup.fetcher.variants.fingerprint,
        "seed": setup.fetcher.seed,
        "shuffle": order.name,
        "order": order_check(order),
    }


def order_check(order: AnyOrder) -> str:
    """Return 16 hex digits: a digest of 64 positions of epoch 0, which differs for almost all other orders."""
    positions = np.unique(np.linspace(0, len(order) - 1, _PROBES).astype(np.int64))
    digest = hashlib.sha256()
    for array in order.places(0, positions):
        digest.update(np.asarray(array, np.int64).astype("<i8").tobytes())
    if changes := getattr(order, "changes", ()):
        # Epoch 0 does not show later changes. Versions that do not know them refuse the state, instead of ignoring them.
        digest.update(json.dumps(changes).encode())
    return digest.hexdigest()[:16]


def check_state(
    state: Mapping[str, Any], own: Mapping[str, Any], lengths: Sequence[int] = ()
) -> tuple[int, Consumed]:
    """Compare a saved state with a loader's own state, and return its epoch and consumed positions.

    Args:
        state: The saved state.
        own: The loader's present state; only the entries of `RunIdentity` are compared.
        lengths: Count of samples in each bucket; empty without buckets.

    Raises:
        StateMismatchError: The state is incomplete or damaged, or belongs to another run.
    """
    entries = state if isinstance(state, Mapping) else {}
    required = (name for name in own if name in LoaderState.__required_keys__)
    missing = [name for name in required if name not in entries]
    if missing:
        raise StateMismatchError(
            f"this is not a loader's state: it lacks {', '.join(missing)}; give what loader.state_dict() returned"
        )
    differences = [
        _describe_difference(name, state, own)
        for name in RunIdentity.__annotations__
        if not _is_equal(state.get(name, own[name]), own[name])
    ]
    if differences:
        raise StateMismatchError(
            f"the state belongs to another run: {'; '.join(differences)}; resume with what the state was saved with, or "
            "start anew (with another recipe on purpose: load {**state, 'recipe': loader.state_dict()['recipe']})"
        )
    return _check_position(state, own["length"], lengths)


def _check_position(
    state: Mapping[str, Any], length: int, lengths: Sequence[int]
) -> tuple[int, Consumed]:
    epoch, consumed, attempt = state["epoch"], state["consumed"], state.get("attempt", "")
    _require(
        _are_counts((epoch, consumed), (MAX_EPOCH, length)),
        f"position is impossible: epoch={_shown(epoch)}, consumed={_shown(consumed)}, allowed are whole numbers with "
        f"0 <= epoch <= {MAX_EPOCH} and 0 <= consumed <= {length}",
    )
    _require(
        is_attempt(attempt),
        f"attempt is impossible: attempt={_shown(attempt)}, allowed are a number and 8 hex digits, such as '3-0c51fa27', or ''",
    )
    if not lengths:
        return epoch, consumed
    buckets = state.get("buckets")
    _require(
        isinstance(buckets, list | tuple)
        and _are_counts(buckets, lengths)
        and sum(buckets) == consumed,
        f"buckets are impossible: buckets={_shown(buckets)}, allowed are {len(lengths)} whole numbers, none larger than "
        f"its bucket, {consumed} together",
    )
    return epoch, tuple(state["buckets"])


def consumed_in(state: Mapping[str, Any]) -> Consumed:
    """Return the consumed positions of a valid state."""
    return tuple(state["buckets"]) if "buckets" in state else int(state["consumed"])


def at_start_of(state: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return a copy of a run's state that is at the start of an epoch."""
    moved = {**state, "epoch": epoch, "consumed": 0}
    return moved | ({"buckets": [0] * len(state["buckets"])} if "buckets" in state else {})


def _require(is_possible: bool, fault: str) -> None:
    if not is_possible:
        raise StateMismatchError(f"the state's {fault}; the file may be damaged")


def _are_counts(values: Sequence[Any], most: Sequence[int]) -> bool:
    """Return whether values are integers from 0 to `most`; True does not count, although an edited file may have it."""
    return len(values) == len(most) and all(
        type(value) is int and 0 <= value <= limit
        for value, limit in zip(values, most, strict=True)
    )


def _is_equal(theirs: Any, ours: Any) -> bool:
    """Return whether two entries are equal and have the same type: True does not equal 1."""
    return type(theirs) is type(ours) and bool(theirs == ours)


def _shown(value: Any) -> str:
    """Return a value as text for an error."""
    try:
        return f"{value!r:.80}"
    except ValueError:  # an int with thousands of digits
        return f"a {type(value).__name__}"


def _describe_difference(name: str, state: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    theirs, ours = state[name], own[name]
    if name == "order":
        words = "they follow from length, seed, shuffle with its blocks, weights of a mixture, and version"
    else:
        words = explain_difference(name, state.get("about"), own["about"])
    # Other datasets have no weights either: one with another shuffle is no mixture with weights, and needs no advice.
    if (
        name == "dataset"
        and "weights" in own
        and "weights" not in state
        and state["shuffle"] == own["shuffle"]
    ):
        words += "; " * bool(words) + (
            "the state holds no weights of a mixture; if an earlier version saved it from this mixture with other weights, "
            "load it with those weights and save it again"
        )
    if name in ("dataset", "recipe", "order"):  # these entries are hashes
        theirs, ours = str(theirs)[:_HASH_IN_ERROR], str(ours)[:_HASH_IN_ERROR]
    plain = f"{name} is {_shown(theirs)} in the state and {_shown(ours)} here"
    return f"{plain} ({words})" if words else plain


def explain_difference(name: str, theirs: Any, ours: Mapping[str, Any]) -> str:
    """Return the lines in which a state's and a loader's description of "dataset" or "recipe" differ, or "".

    Args:
        name: The entry of `About`, "dataset" or "recipe"; for other names the result is "".
        theirs: The entry `about` of a state, which can be missing or damaged.
        ours: The entry `about` of the loader.
    """
    try:
        lines = [[about[name]] if name == "dataset" else about[name] for about in (theirs, ours)]
        changes = [line for line in ndiff(lines[0], lines[1]) if line[0] in "-+"]
    except (KeyError, TypeError):
        return ""
    more = "; ..." if len(changes) > _LINES_IN_ERROR else ""
    shown = "; ".join(changes[:_LINES_IN_ERROR]) + more
    return f"- in the state, + here: {shown}" if changes else ""


def describe_dataset(dataset: Dataset) -> str:
    """Return the repr of a dataset, or its class and length if it has no own repr."""
    if type(dataset).__repr__ is not object.__repr__:
        return _cut(repr(dataset), _DATASET)
    return f"{type(dataset).__name__} of {counted(len(dataset), 'sample')}"


def describe_draws(dataset: Dataset, seed: int) -> str:
    """Return a text with the seed, and for a mixture its weights by epoch; all ranks of a run must have the same one."""
    weights = dict(dataset.epoch_weights) if isinstance(dataset, Mixture) else {}
    return _cut(f"seed={seed}" + f", weights={weights}" * bool(weights), _DATASET)


def describe_recipe(variants: Variants) -> list[str]:
    """Return a line for each operation, like ``HorizontalFlip(p=0.3)``, without arguments with their default value."""
    schedule, lines = variants.schedules[0], list[str]()
    if variants.sizes is not None:
        lines.append(f"sizes {shown_sizes(variants.sizes.sizes)}, of which the first has:")
    for epoch in schedule.first_epochs:
        if len(schedule) > 1:
            lines.append(f"from epoch {epoch} on:")
        lines += _describe_views(variants.views[variants.at(epoch)])
    cut = [_cut(line, _LINE) for line in lines]
    while sum(map(len, cut)) > _RECIPE:
        cut.pop()
    return cut if len(cut) == len(lines) else [*cut, f"and {len(lines) - len(cut)} more"]


def steps_of(variants: Variants) -> str:
    """Return the names of the first recipe's operations; for views, those of the first view."""
    views = variants.views[0].recipes
    names = ", ".join(type(operation).__name__ for operation in views[0].operations)
    return _cut(f"{len(views)} views, first {names}" if len(views) > 1 else names, _LINE)


def shown_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """Return sizes as text such as 448x576 (height first); long lists end with the number of further sizes."""
    shown = " ".join(f"{height}x{width}" for height, width in sizes[:_MOST_SIZES])
    return shown + (f" and {len(sizes) - _MOST_SIZES} more" if len(sizes) > _MOST_SIZES else "")


def _describe_views(views: Views) -> Iterator[str]:
    if isinstance(views, CameraRecipes):
        titles = (f"cameras {title}: " for title in views.titles)
        heads = [*zip(views.recipes, titles, strict=True)]
    else:
        heads = [
            (recipe, f"{count} of {len(views)} views: " if len(views) > 1 else "")
            for recipe, count in Counter(views.recipes).items()
        ]
    for recipe, head in heads:
        for operation in recipe.operations:
            yield head + _describe_call(operation.differences())
        for name, params in recipe.target_params.items():
            # () is no difference, but a Loader fills in other pairs without it.
            pairs = {"flip_pairs": ()} if params.flip_pairs == () else {}
            described = {"name": f"{name}={type(params).__name__}", **params.differences(), **pairs}
            yield head + _describe_call(described)


def _describe_call(described: Mapping[str, Any]) -> str:
    arguments = (
        f"{name}={_cut(str(value), _ARGUMENT)}"
        for name, value in described.items()
        if name != "name"
    )
    return f"{described['name']}({', '.join(arguments)})"


def _cut(text: str, most: int) -> str:
    """Shorten a text; a checksum at its end keeps different texts different."""
    if len(text) <= most:
        return text
    return f"{text[: most - 10]}..#{zlib.crc32(text.encode('utf-8', 'replace')):08x}"
