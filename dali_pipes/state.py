"""Where a run stands: a small dictionary that belongs to one dataset, recipe and seed."""

from collections.abc import Mapping
from typing import Any, TypedDict

from dali_pipes.errors import StateMismatchError

VERSION = 1


class LoaderState(TypedDict):
    """What a run needs to go on, on any number of ranks and with any batch size.

    Attributes:
        version: Of this dictionary and of the order and draws behind it.
        dataset: Fingerprint of the dataset.
        length: Number of samples in the dataset.
        recipe: Fingerprint of the recipe.
        seed: Of the order and the draws.
        shuffle: Kind of the order.
        epoch: Counts from 0.
        consumed: Positions of the epoch's order that all ranks together have received.
    """

    version: int
    dataset: str
    length: int
    recipe: str
    seed: int
    shuffle: str
    epoch: int
    consumed: int


_IDENTITY = ("version", "dataset", "length", "recipe", "seed", "shuffle")


def check_state(state: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[int, int]:
    """Compare a saved state with a loader's own and return its epoch and consumed count.

    Args:
        state: The saved state.
        own: The loader's present state; only what identifies the run is compared.

    Raises:
        StateMismatchError: If the state is incomplete or belongs to another run.
    """
    known = state if isinstance(state, Mapping) else {}
    missing = [name for name in LoaderState.__annotations__ if name not in known]
    if missing:
        raise StateMismatchError(
            f"this is not a loader's state: it lacks {', '.join(missing)}; give what "
            f"loader.state_dict() returned"
        )
    different = [
        f"{name} is {state[name]!r} in the state and {own[name]!r} here"
        for name in _IDENTITY
        if state[name] != own[name]
    ]
    if different:
        raise StateMismatchError(
            f"the state belongs to another run: {'; '.join(different)}; resume with what the state was "
            f"saved with, or start anew"
        )
    epoch, consumed = state["epoch"], state["consumed"]
    whole = all(isinstance(value, int) for value in (epoch, consumed))
    if not whole or epoch < 0 or not 0 <= consumed <= own["length"]:
        raise StateMismatchError(
            f"the state's position is impossible: {epoch=}, {consumed=}, allowed are whole numbers "
            f"with epoch >= 0 and 0 <= consumed <= {own['length']}; the file may be damaged"
        )
    return epoch, consumed
