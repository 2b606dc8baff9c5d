"""A user's own function in a recipe."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from gpu_aug.ops.foreign.code import describe_code
from gpu_aug.ops.foreign.foreign import Named

__all__ = ["BatchFunction"]


@dataclass(frozen=True, eq=False)
class BatchFunction(Named):
    """A function of your own on a batch of images.

    It gets float32 [b, 3, H, W], in [0, 1] before Normalize, on the engine's device, and returns the
    same shape. All images of the batch that it is applied to come in one call, on every engine: those of
    a Loader's batch that were not lost, frames of clips one after the other, or all of a call of ``apply``. They must have
    one size by then, so a crop or resize comes before. What it computes over the batch makes a sample depend on its
    batch, and with it on the batch size and the number of ranks.

    The recipe's fingerprint holds its source, and that of functions and classes of its module that it names; comments,
    docstrings, blank space and where it lies do not count, nor does the version of Python.

    A parameter called ``seeds`` gets int64 [b] on the CPU, one number per sample that is the same in every
    run; other randomness is not repeatable, and is warned about: where a generator of torch, NumPy or Python went on
    during the first call, further calls on the same images show whether results change.

    Args:
        function: As described.
        name: Name in a recipe file; None is ``module:name`` of a function that has one.
        spatial: Whether it moves pixels, which boxes, keypoints and masks would not follow. None:
            not known, so a recipe with it refuses targets.

    Example:
        >>> def darken(images):                            # float32 [B, 3, H, W]
        ...     return images * 0.5
        >>> Recipe([RandomResizedCrop(224), darken, Normalize()]).size
        (224, 224)
    """

    given_by_name: ClassVar[str] = "function"

    function: Callable[..., Any]
    _: KW_ONLY
    name: str | None = None
    spatial: bool | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise self.refusal(self.function)
        qualified = getattr(self.function, "__qualname__", "<>")
        if self.name is None and "<" not in qualified:
            self._set(name=f"{self.function.__module__}:{qualified}")

    @property
    def title(self) -> str:
        """The name of the function."""
        return f"the function {self.name or getattr(self.function, '__qualname__', self.function)}"

    def identity(self) -> dict[str, Any]:
        """Return a description of its code."""
        return {"function": describe_code(self.function)}
