"""What is said of names that a loader does not have: the nearest one, or what other libraries' words are here."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any, NoReturn, ParamSpec, TypeVar

from gpu_aug.names import closest

P = ParamSpec("P")
R = TypeVar("R")

# Of torch's DataLoader and of DALI's pipelines and readers.
_ELSEWHERE = {
    "num_workers": "num_threads, helper_process=True, or workers= for other machines",
    "drop_last": 'last_batch="drop", "partial" or "pad"',
    "prefetch_factor": "prefetch",
    "prefetch_queue_depth": "prefetch",
    "transform": "the recipe, the second argument",
    "sampler": "shuffle, or selections of the dataset such as where() and balanced()",
    "batch_sampler": "batch_size with shuffle",
    "generator": "seed",
    "random_shuffle": 'shuffle="global" or "none"',
    "num_shards": "world_size",
    "shard_id": "rank",
    "num_replicas": "world_size",
    "device_id": 'device="cuda:N"',
}


def known_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a TypeError for a keyword that a function does not have name the one that was meant."""
    known = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise TypeError(
                    f"Loader has no argument {name!r}{meant(name, known)}; help(Loader) tells of all"
                )
        return function(*args, **kwargs)

    return checked


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``": use ..."``, or "" where nothing is near."""
    near = name if name in _ELSEWHERE else closest(name, [*known, *_ELSEWHERE])
    return f": use {_ELSEWHERE.get(near, near)}" if near else ""


def is_known(owner: type, name: str) -> bool:
    """Whether a class has such an attribute or argument."""
    return hasattr(owner, name) or name in signature(owner).parameters


def refuse_attribute(loader: Any, name: str, value: Any) -> NoReturn:
    """Refuse to set an attribute, which would change nothing.

    Raises:
        AttributeError: Says what to do instead.
    """
    arguments = signature(type(loader).__init__).parameters
    if name == "epoch":
        said = f"say loader.set_epoch({value!r})"
    elif name in arguments:
        said = (
            f"make another loader, Loader(..., {name}=...), and give it the state of this one"
            + (
                "; with another recipe that is {**state, 'recipe': recipe.fingerprint}"
                * (name == "recipe")
            )
        )
    elif hasattr(loader, name):
        raise AttributeError(
            f"loader.{name} is read-only; to have another one, make another loader, or a subclass of Loader with its "
            f"own {name}",
            name=name,
            obj=loader,
        )
    else:
        known = [*arguments, "epoch", "steps", *(one for one in dir(loader) if one[0] != "_")]
        said = f"a loader has no {name!r}{meant(name, known)}"
    raise AttributeError(f"loader.{name} = ... would change nothing: {said}", name=name, obj=loader)
