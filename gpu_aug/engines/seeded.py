"""Transforms and functions of other libraries or of the user, with their randomness seeded for each sample."""

import pickle
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.errors import EngineError
from gpu_aug.ops.foreign.function import BatchFunction
from gpu_aug.ops.foreign.transforms import AlbumentationsTransform, TorchvisionTransform

Image = NDArray[Any]
OnImage = Callable[[Image, Params, int], Image]
"""One image [H, W, 3], the parameters of the batch and the image's row in, a new image out."""

_LOCK = threading.RLock()  # the seeded generators belong to the process
_NUM_TRIALS = 8  # calls on the same images: a function may also draw whether it changes them at all


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators of torch, Python and NumPy in a with block, and restore their states afterwards.

    One thread at a time runs such a block. If ``device`` is a CUDA device, its generator is seeded too.
    """
    generators = [torch.default_generator]
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    with _LOCK:
        states = [generator.get_state() for generator in generators]
        python, array = random.getstate(), np.random.get_state()  # noqa: NPY002 - others use it
        try:
            for generator in generators:
                generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002 - others use it
            yield
        finally:
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)
            random.setstate(python)
            np.random.set_state(array)  # noqa: NPY002 - others use it


def albumentations_function(operation: AlbumentationsTransform) -> OnImage:
    """Return a function that calls the Albumentations transform on one image, seeded for its sample.

    Each thread uses its own copy of the transform, because a transform stores its generators and last parameters.
    """
    copies = threading.local()
    holds_code = operation.holds_code  # the user's code may draw from any generator

    def apply(image: Image, params: Params, row: int) -> Image:
        if not hasattr(copies, "transform"):
            with _LOCK:
                copies.transform = deepcopy(operation.transform)
        seed = int(params["seed"][row])
        copies.transform.set_random_state(np.random.default_rng(seed), random.Random(seed))
        with seeded(seed, torch.device("cpu")) if holds_code else nullcontext():
            result = copies.transform(image=np.array(image))["image"]
        if isinstance(result, Tensor):
            result = result.permute(1, 2, 0).numpy()
        if result.dtype not in (np.uint8, np.float32):
            raise EngineError(
                f"{operation.title} must give uint8 or float32 images, gave {result.dtype}"
            )
        return np.asarray(check_shape(operation.title, image.shape, result))

    return apply


def torchvision_function(operation: TorchvisionTransform) -> OnImage:
    """Return a function that calls the torchvision transform on one image, seeded for its sample."""

    def apply(image: Image, params: Params, row: int) -> Image:
        from torchvision.transforms.v2 import functional

        given: Any = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        if operation.takes == "pil":
            given = functional.to_pil_image(given)
        with seeded(int(params["seed"][row]), torch.device("cpu")):
            result = operation.transform(given)
        if not isinstance(result, Tensor):
            result = functional.pil_to_tensor(result)
        result = result.as_subclass(Tensor).detach()
        if result.dtype not in (torch.uint8, torch.float32):
            raise EngineError(
                f"{operation.title} must give uint8 or float32 images, gave {result.dtype}"
            )
        array = result.permute(1, 2, 0).contiguous().numpy()
        return np.asarray(check_shape(operation.title, image.shape, array))

    return apply


def run_module(module: Any, title: str, x: Tensor, params: Params) -> Tensor:
    """Return images [n, 3, H, W] after a call of ``module`` on each one by itself, seeded for its sample."""
    results = []
    for row, seed in enumerate(params["seed"].tolist()):
        with seeded(seed, x.device):
            result = module(x[row : row + 1].clone())
        results.append(check_batch(title, x[row : row + 1], result))
    return torch.cat(results)


def batch_function(operation: BatchFunction) -> Callable[[Tensor, Params], Tensor]:
    """Return a function that calls the user's function with a batch of planar float32 images.

    At its first call it warns if the function seems to draw from a global generator.
    """
    with_seeds = _takes_seeds(operation.function)
    unseen = iter(() if with_seeds else (True,))

    def call(x: Tensor, params: Params) -> Any:
        more = {"seeds": torch.from_numpy(params["seed"].copy())} if with_seeds else {}
        try:
            return operation.function(x.clone(), **more)
        except Exception as error:
            error.add_note(f"in {operation.title}, a step of the recipe")
            raise

    def apply(x: Tensor, params: Params) -> Tensor:
        check = partial(check_batch, operation.title, x)
        looks = next(unseen, False)
        before = _states(x.device) if looks else {}
        result = check(call(x, params))
        after = _states(x.device) if looks else {}
        drew = [name for name in before if after[name] != before[name]]
        if drew:  # or another thread did meanwhile
            result = result.clone()  # a function may return the same memory again
            if any(_differ(result, check(call(x, params))) for _ in range(_NUM_TRIALS)):
                _warn_of_draws(operation.title, drew)
        return result

    return apply


def _differ(one: Tensor, other: Tensor) -> bool:
    """Return whether two results for the same images differ by more than the rounding of sums explains."""
    return not torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)


def _warn_of_draws(title: str, drew: list[str]) -> None:
    warnings.warn(
        f"{title} seems to draw from the generator of {' and '.join(drew)}, so the same sample changes with "
        "every run, batch and worker: give it a parameter called seeds, int64 [b], one number per image, and "
        "seed a generator of its own by them",
        stacklevel=3,
    )


def _states(device: torch.device) -> dict[str, bytes]:
    """Return the states of the generators that ``seeded`` seeds, by the name of the library."""
    states = {
        "torch": torch.default_generator.get_state().numpy().tobytes(),
        "Python's random": pickle.dumps(random.getstate()),
        "NumPy": pickle.dumps(np.random.get_state()),  # noqa: NPY002 - others use it
    }
    if device.type == "cuda":
        states["torch on the GPU"] = torch.cuda.get_rng_state(device).numpy().tobytes()
    return states


def check_batch(title: str, before: Tensor, after: Any) -> Tensor:
    """Return a module's or function's result as a plain float32 tensor on the device of ``before``.

    Raises:
        EngineError: The result is not a tensor of the shape of ``before``.
    """
    if not isinstance(after, Tensor):
        raise EngineError(f"{title} must return a tensor, returned {type(after).__name__}")
    check_shape(title, tuple(before.shape), after)
    return after.detach().as_subclass(Tensor).to(before.device, torch.float32)


def check_shape(title: str, before: tuple[int, ...], after: Any) -> Any:
    """Return ``after`` if it has the shape ``before``.

    Raises:
        EngineError: The shapes differ.
    """
    if tuple(after.shape) != tuple(before):
        raise EngineError(
            f"{title} must keep the shape {list(before)}, made {list(after.shape)}: a step that is not "
            "ours cannot change the size; use an operation of gpu_aug for that"
        )
    return after


def _takes_seeds(function: Callable[..., Any]) -> bool:
    try:
        return "seeds" in signature(function).parameters
    except (TypeError, ValueError):
        return False
