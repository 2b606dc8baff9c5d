"""The labels of a batch some of whose samples have none: a tensor that no loss of classes takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from dali_pipes.errors import LoaderError
from gpu_aug.targets.soft_labels import missing_labels

# torch itself says "Target -1 is out of bounds", and on a GPU by an assertion that ends the process.
_TARGETS = {
    functional.cross_entropy: 1,
    functional.nll_loss: 1,
    functional.multi_margin_loss: 1,
    functional.one_hot: 0,
}
"""Functions of class numbers, and which of their arguments these are."""
# What moves the labels as they are, so that they are refused there as well. All else returns plain tensors, among them
# ``labels[labels >= 0]``, which has a label in each place.
_MOVES = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        "to",
        "cuda",
        "cpu",
        "pin_memory",
        "clone",
        "detach",
        "contiguous",
        "long",
        "view",
        "reshape",
        "flatten",
        "squeeze",
    )
)


class LabelsWithMissing(torch.Tensor):
    """Class numbers, -1 for some; a tensor like others, but losses of classes refuse it with the reason.

    A loss with ``ignore_index=-1`` takes it. What is pickled or saved of it is a plain tensor.
    """

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func in _TARGETS:
            _refuse_missing(func, args, options)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **options)
            is_moved = func in _MOVES and result.dtype == torch.int64
            return result.as_subclass(cls) if is_moved else result

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A plain tensor's: who loads it need not have this package."""
        plain: Any = self.as_subclass(torch.Tensor)
        return plain.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.clone()


def _refuse_missing(
    func: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Refuse labels that are missing, unless a loss is told to ignore them.

    Raises:
        LoaderError: Some are.
    """
    given = options["target"] if "target" in options else args[_TARGETS[func]]
    if not isinstance(given, torch.Tensor) or given.is_floating_point():
        return
    with torch._C.DisableTorchFunctionSubclass():
        missing = int(((given < 0) & (given != options.get("ignore_index", -100))).sum())
    if missing:
        raise LoaderError(
            f"{missing_labels(missing, given.numel())}, or give the loss ignore_index=-1"
        )
