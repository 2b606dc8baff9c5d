"""Continue the run of a mixture with other weights: which weights the run has had, and from which position on."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from dali_pipes.arguments.order import find_order
from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import StateMismatchError
from readers import Mixture, SelectionError
from readers.datasets.mixture import with_epoch_weights
from readers.describe import few_of
from readers.order.proportion import EpochWeights, ProportionalOrder, WeightChange
from readers.plural import counted

WeightHistory = tuple[WeightChange, ...]
"""All weights that a run has had, ascending, beginning with epoch 0, position 0."""

# Digits of a weight and numbers of a list of weights in a text: more only if texts of different weights would be equal.
# 17 digits tell all floats apart.
_PRECISIONS = ((6, 8), (9, 8), (17, 8), (17, 1 << 20))
# What a damaged list of weights can lead to, before the digest of the order would show the damage.
_FAULTS = (SelectionError, msgspec.ValidationError, ArithmeticError, IndexError, ValueError)


def history_of(setup: Setup) -> WeightHistory:
    """Return the weights that the order of a loader has; empty if its dataset is no mixture with weights."""
    order = setup.fetcher.order
    if not isinstance(setup.options.dataset, Mixture) or not isinstance(order, ProportionalOrder):
        return ()
    return (WeightChange(0, 0, ((0, order.weights), *order.later)), *order.changes)


def saved_history(setup: Setup) -> list[Any]:
    """Return `history_of` for a state, as lists, which JSON does not change."""
    return [
        [epoch, position, [[since, list(shares)] for since, shares in weights]]
        for epoch, position, weights in history_of(setup)
    ]


def setup_of_state(setup: Setup, state: Any) -> Setup:
    """Return the setup of the loader that saved a state, if it differs from a setup in the weights only.

    Args:
        setup: The setup of the loader that loads the state.
        state: The state, which can belong to another run or be damaged: `check_state` compares it with the result.

    Raises:
        StateMismatchError: The entry `weights` is damaged.
    """
    dataset: Any = setup.options.dataset
    if not history_of(setup):
        return setup
    own = (WeightChange(0, 0, dataset.epoch_weights),)
    # States of earlier versions have no weights: they fit if the weights are the same.
    saved = state.get("weights", own) if isinstance(state, Mapping) else own
    try:
        history = msgspec.convert(saved, WeightHistory)
        counts = {len(shares) for change in history for _, shares in change.weights}
        # Other counts are those of other datasets, which the fingerprints show.
        return _with_history(setup, history if counts <= {len(dataset.datasets)} else own)
    except _FAULTS as error:
        raise StateMismatchError(
            f"the state's weights are impossible ({error}); the file may be damaged"
        ) from error


def continued(saved: Setup, own: Setup, epoch: int, consumed: int) -> Setup:
    """Return the setup of a loader that continues a run, and warn if its weights are not those of the run.

    The positions before the state have the order of the saved weights, those after it the order of the loader's weights,
    in which each dataset continues with its next sample.

    Args:
        saved: The result of `setup_of_state`.
        own: The setup of the loader.
        epoch: Epoch of the state.
        consumed: Count of the positions of this epoch that all ranks together have received.
    """
    history, dataset = history_of(saved), own.options.dataset
    if (
        not isinstance(dataset, Mixture)
        or not history
        or history[-1].weights == dataset.epoch_weights
    ):
        return saved
    new = dataset.epoch_weights
    start = (epoch + 1, 0) if consumed == len(saved.fetcher.order) else (epoch, consumed)
    warnings.warn(
        f"the weights of the mixture changed in epoch {start[0]} after {counted(start[1], 'sample')}: "
        f"{' -> '.join(_describe([history[-1].weights, new]))}; each dataset continues with its next sample",
        stacklevel=3,
    )
    # If the epoch of the saved run was set back, it had planned changes that no longer take place.
    history = tuple(change for change in history if change[:2] < start)
    if not history or history[-1].weights != new:
        history = (*history, WeightChange(*start, new))
    return _with_history(own, history)


def describe_history(setup: Setup) -> str:
    """Return a text with all weights of a run, and the samples after which they hold."""
    history = history_of(setup)
    return "; ".join(
        f"{weights} from epoch {change.epoch} after {counted(change.position, 'sample')}"
        for weights, change in zip(
            _describe([change.weights for change in history]), history, strict=True
        )
    )


def _with_history(setup: Setup, history: WeightHistory) -> Setup:
    """Return a setup whose order has had some weights, and whose dataset has the last of them.

    Raises:
        SelectionError: The dataset cannot have these weights.
    """
    dataset: Any = setup.options.dataset
    mixtures = [with_epoch_weights(dataset, change.weights) for change in history]
    # The blocks of shuffle="block" follow from the first weights: other blocks would repeat samples and leave others out.
    order: Any = find_order(mixtures[0], setup.fetcher.seed, setup.options.shuffle)
    fetcher = replace(setup.fetcher, order=replace(order, changes=history[1:]))
    return replace(setup, options=replace(setup.options, dataset=mixtures[-1]), fetcher=fetcher)


def _describe(all_weights: Sequence[EpochWeights]) -> list[str]:
    """Return each of several weights as text, with enough digits and numbers that different weights have different texts."""
    attempts = (
        [_describe_one(weights, digits, most) for weights in all_weights]
        for digits, most in _PRECISIONS
    )
    return max(attempts, key=lambda texts: len({*texts}))  # the first of equal ones, which is short


def _describe_one(weights: EpochWeights, digits: int, most: int) -> str:
    """Return weights as text: of epoch 0, and of the epochs from which others hold."""
    return " and ".join(
        f"{f'from epoch {epoch} on ' * (epoch > 0)}{few_of([f'{weight:.{digits}g}' for weight in shares], most)}"
        for epoch, shares in weights
    )
