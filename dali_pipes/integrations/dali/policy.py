"""DALI's policies at the end of an epoch, and their names in a loader."""

import warnings
from enum import Enum, unique
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.steps.schedule import LastBatch


@unique
class LastBatchPolicy(Enum):
    """What happens to an incomplete last batch of an epoch; names and values are DALI's.

    Attributes:
        FILL: It is filled with samples from the start of the epoch's order.
        DROP: It is left out.
        PARTIAL: It is returned as it is; a rank may have one sample less than another, or none.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> len(DALIClassificationIterator(loader, last_batch_policy=LastBatchPolicy.DROP))
        4
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


_LAST_BATCH: dict[str, LastBatch] = {"FILL": "pad", "DROP": "drop", "PARTIAL": "partial"}


def last_batch_of(policy: Any, fill_last_batch: bool | None) -> LastBatch:
    """Return the loader's name of a policy, ours or DALI's.

    Args:
        policy: A LastBatchPolicy of this module or of `nvidia.dali.plugin.base_iterator`.
        fill_last_batch: DALI's older way to say it, which comes first; None for `policy`.

    Raises:
        LoaderError: The value is not a policy.
    """
    if fill_last_batch is not None:
        warnings.warn(
            "fill_last_batch is deprecated in DALI; use last_batch_policy instead",
            DeprecationWarning,
            stacklevel=4,
        )
        return "pad" if fill_last_batch else "partial"
    # By the name of its class: DALI's enumeration is known without importing DALI.
    known = isinstance(policy, Enum) and type(policy).__name__ == LastBatchPolicy.__name__
    if not known or policy.name not in _LAST_BATCH:
        raise LoaderError(
            f"last_batch_policy={policy!r} is not known; allowed are LastBatchPolicy.FILL, DROP and PARTIAL"
        )
    return _LAST_BATCH[policy.name]


def resets_itself(auto_reset: str | bool | None) -> bool:
    """Read DALI's `auto_reset`.

    Raises:
        LoaderError: It is neither True or "yes", nor False, None or "no".
    """
    if auto_reset is True or auto_reset == "yes":
        return True
    if auto_reset is False or auto_reset is None or auto_reset == "no":
        return False
    raise LoaderError(
        f'{auto_reset=} is not known; allowed are True or "yes", and False, None or "no"'
    )
