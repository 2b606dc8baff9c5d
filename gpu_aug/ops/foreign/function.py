"""BatchFunction: an operation that calls a function of the user."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from gpu_aug.ops.foreign.code import describe_code
from gpu_aug.ops.foreign.foreign import Named

__all__ = ["BatchFunction"]


@dataclass(frozen=True, eq=False)
class BatchFunction(Named):
    """An operation that calls a function of your own with a batch of images.

    The function gets the images as float32 [b, 3, H, W], in [0, 1] before Normalize, on the engine's device, and returns a
    tensor of that shape. On every engine, one call gets all images of the batch: those of a Loader's batch without bad samples,
    the frames of clips one after the other, or all images of a call of ``apply``. They must have one size, so a crop or resize
    comes before. If the function computes anything over the batch, samples depend on their batch, and so on the batch size and
    the number of ranks.

    The fingerprint of the recipe depends on the source of the function, and of the functions and classes of its module that it
    names. It does not depend on comments, docstrings, blank space, the module, or the version of Python.

    If the function has a parameter ``seeds``, it gets int64 [b] on the CPU: one number per sample, equal in every run. Other
    randomness is not repeatable and causes a warning: if a generator of torch, NumPy or Python was used during the first call,
    the function is called again on the same images to see whether results change.

    Args:
        function: The function, as described above.
        name: Name in a recipe file; None means ``module:name``, if the function has a name.
        spatial: Whether the function moves pixels, which boxes, keypoints and masks would not follow. None means unknown:
            then the recipe refuses targets.

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
        """The name of the function, for error messages."""
        return f"the function {self.name or getattr(self.function, '__qualname__', self.function)}"

    def identity(self) -> dict[str, Any]:
        """Return a description of the function's code."""
        return {"function": describe_code(self.function)}
