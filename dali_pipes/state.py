"""Where a run stands: a small dictionary that belongs to one dataset, recipe and seed."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import StateMismatchError
from dali_pipes.runs.attempt import is_attempt
from dali_pipes.state_words import About, explain_dataset, explain_recipe
from dali_pipes.steps.schedule import MAX_EPOCH, Consumed

VERSION = 1

_PROBES = 64
_MAX_SHOWN = 80  # characters of a value, in an error
_HASH_CHARS = 12  # of a fingerprint, in an error


class RunIdentity(TypedDict):
    """What decides which samples stand where, and how they are drawn.

    Attributes:
        version: Version of the state and of the order and draws behind it.
        dataset: Fingerprint of the dataset.
        length: Positions in an epoch.
        recipe: Fingerprint of the recipe.
        seed: Seed of the order and the draws.
        shuffle: Kind of the order.
        order: 16 hex digits over some positions of epoch 0, which no other order has.
    """

    version: int
    dataset: str
    length: int
    recipe: str
    seed: int
    shuffle: str
    order: NotRequired[str]


class LoaderState(RunIdentity):
    """What a run needs to go on, on any number of ranks and with any batch size.

    Less than 2 kB of JSON and a number for each bucket, however long the run, the dataset or the recipe. States of earlier
    versions lack `order`, `about` and `attempt`, and load all the same.

    Attributes:
        epoch: Counts from 0.
        consumed: Positions of the epoch's order that all ranks together have received.
        buckets: The same of each bucket, in the order of their sizes, where samples are in buckets.
        about: Dataset and recipe in words, to say what is different; not compared.
        stream: Where reading goes on, for what is read forward; see dali_pipes.steps.streams.steps.
        attempt: Which start of the run saved it, for its audit; "" if it has none. Not compared.

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


_IDENTITY = tuple(RunIdentity.__annotations__)


def identity_of(setup: Setup) -> RunIdentity:
    """Return what the states of a loader must agree with."""
    order, options = setup.fetcher.order, setup.options
    return {
        "version": VERSION,
        "dataset": options.dataset.fingerprint,
        "length": len(order),  # steps that were replaced may end an epoch earlier
        "recipe": setup.fetcher.variants.fingerprint,
        "seed": setup.fetcher.seed,
        "shuffle": order.name,
        "order": order_check(lambda positions: order.places(0, positions), len(order)),
    }


def order_check(look_up: Callable[[np.ndarray], Sequence[np.ndarray]], length: int) -> str:
    """Return 16 hex digits over 64 positions of an order, which tell it from most others.

    Args:
        look_up: Returns the arrays that say what stands at positions, int64 [n], of epoch 0.
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
        own: The loader's present state; only what identifies the run is compared.
        lengths: Samples in each bucket, if there are buckets.

    Raises:
        StateMismatchError: If the state is incomplete or belongs to another run.
    """
    known = state if isinstance(state, Mapping) else {}
    optional = LoaderState.__optional_keys__
    missing = [
        name for name in LoaderState.__annotations__ if name not in known and name not in optional
    ]
    if missing:
        raise StateMismatchError(
            f"this is not a loader's state: it lacks {', '.join(missing)}; give what "
            f"loader.state_dict() returned"
        )
    names = [name for name in _IDENTITY if not _equal(state.get(name, own[name]), own[name])]
    if {"length", "seed", "shuffle"}.intersection(names):
        names = [name for name in names if name != "order"]  # it follows from them
    if names:
        different = [_difference(name, state, own) for name in names]
        raise StateMismatchError(
            f"the state belongs to another run: {'; '.join(different)}; resume with what the state was "
            f"saved with, or start anew"
        )
    epoch, consumed = state["epoch"], state["consumed"]
    whole = all(type(value) is int for value in (epoch, consumed))  # True is no epoch
    if not whole or not 0 <= epoch <= MAX_EPOCH or not 0 <= consumed <= own["length"]:
        raise StateMismatchError(
            f"the state's position is impossible: epoch={_short(epoch)}, consumed={_short(consumed)}, allowed are "
            f"whole numbers with 0 <= epoch <= {MAX_EPOCH} and 0 <= consumed <= {own['length']}; the file may be "
            f"damaged"
        )
    if not is_attempt(state.get("attempt", "")):
        raise StateMismatchError(
            f"the state's attempt is impossible: attempt={_short(state['attempt'])}, allowed are a number and 8 hex "
            f"digits, such as '3-0c51fa27', or ''; the file may be damaged"
        )
    return epoch, _of_buckets(state, consumed, lengths) if lengths else consumed


def consumed_in(state: Mapping[str, Any]) -> Consumed:
    """Return what a state that fits says of the consumed positions."""
    return tuple(state["buckets"]) if "buckets" in state else int(state["consumed"])


def at_start_of(state: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return a state of the same run that stands at the start of an epoch."""
    moved = {**state, "epoch": epoch, "consumed": 0}
    return moved | ({"buckets": [0] * len(state["buckets"])} if "buckets" in state else {})


def _of_buckets(state: Mapping[str, Any], consumed: int, lengths: Sequence[int]) -> Consumed:
    """Return how many samples of each bucket are consumed."""
    given = state.get("buckets")
    counts = given if isinstance(given, list | tuple) else ()
    whole = len(counts) == len(lengths) and all(type(count) is int for count in counts)
    if not whole or not all(
        0 <= count <= length for count, length in zip(counts, lengths, strict=True)
    ):
        raise StateMismatchError(
            f"the state's buckets are impossible: buckets={_short(given)}, allowed are {len(lengths)} whole numbers, "
            f"none larger than its bucket; the file may be damaged"
        )
    if sum(counts) != consumed:
        raise StateMismatchError(
            f"the state's position is impossible: consumed={consumed}, but its buckets have {sum(counts)} together; the "
            f"file may be damaged"
        )
    return tuple(counts)


def _equal(theirs: Any, ours: Any) -> bool:
    """Whether two entries are one; True is not 1, as a file that somebody edited may have it."""
    return type(theirs) is type(ours) and bool(theirs == ours)


def _difference(name: str, state: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    theirs, ours = state[name], own[name]
    if name in ("dataset", "recipe", "order"):  # hashes
        theirs, ours = str(theirs)[:_HASH_CHARS], str(ours)[:_HASH_CHARS]
    plain = f"{name} is {_short(theirs)} in the state and {_short(ours)} here"
    words = _words(name, state.get("about"), own.get("about"))
    return f"{plain} ({words})" if words else plain


def _short(value: Any) -> str:
    """A value as an error shows it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of thousands of digits, or whatever else a file held
        return f"a {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _words(name: str, theirs: Any, ours: Any) -> str:
    """Say it for people, if the state and the loader have words for it."""
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
