"""Advise on unknown keywords and attributes of a loader, by old names, similar names, and names of other libraries."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import wraps
from inspect import signature
from typing import Any, NoReturn, ParamSpec, TypeVar

from dali_pipes.arguments.options import BlockShuffle, Execution, ImageOptions, Monitoring
from dali_pipes.errors import LoaderError
from gpu_aug.names import closest

P = ParamSpec("P")
R = TypeVar("R")

VALUE_OBJECTS: Mapping[str, type[Any]] = {
    "images": ImageOptions,
    "execution": Execution,
    "monitoring": Monitoring,
}
"""The keywords of a Loader that hold its less common arguments."""

# Keywords of earlier versions -> the keyword that contains them now, its class, and the name of its field.
_MOVED: dict[str, tuple[str, type[Any], str]] = {
    **{
        name: (keyword, kind, name)
        for keyword, kind in VALUE_OBJECTS.items()
        for name in signature(kind).parameters
        if name != "fields"
    },
    "images": ("images", ImageOptions, "fields"),
    "shuffle_window": ("shuffle", BlockShuffle, "window"),
}

# Names in torch's DataLoader, in DALI's pipelines and readers, and in earlier versions.
_ELSEWHERE = {
    "mesh": 'rank=mesh["dp"], without world_size',
    "num_workers": "num_threads, execution=Execution(helper_process=True), or workers= for other machines",
    "drop_last": 'last_batch="drop", "partial" or "pad"',
    "prefetch_factor": "execution=Execution(prefetch=...)",
    "prefetch_queue_depth": "execution=Execution(prefetch=...)",
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
    """Decorate a function so that the error for an unknown keyword says what to write instead."""
    known = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        moved = {name: value for name, value in kwargs.items() if _is_moved(name, value)}
        if moved:
            raise TypeError(f"Loader: {', '.join(moved)} moved: write {spelled(moved)}")
        for name, value in kwargs.items():
            if name not in known:
                raise TypeError(
                    f"Loader has no argument {name!r}{meant(name, known)}; help(Loader) lists all"
                )
            kind = VALUE_OBJECTS.get(name, object)
            if not isinstance(value, kind):
                raise LoaderError(f"{name}={value!r} is not allowed; give {kind.__name__}(...)")
        return function(*args, **kwargs)

    return checked


def _is_moved(name: str, value: object) -> bool:
    if name == "images":  # "images" is also the keyword of a value object
        return not isinstance(value, ImageOptions)
    return name in _MOVED


def spelled(settings: Mapping[str, Any]) -> str:
    """Return Python code of a Loader's keywords for settings that are given by plain names, such as "prefetch".

    Example:
        >>> spelled({"seed": 1, "prefetch": 4, "cache": "device"})
        "seed=1, execution=Execution(prefetch=4, cache='device')"
    """
    calls: dict[str, list[str]] = {}
    for name, value in settings.items():
        # The repr of a function is not valid Python code.
        shown = "..." if value is ... or repr(value).startswith("<") else repr(value)
        if isinstance(value, VALUE_OBJECTS.get(name, ())):
            calls.setdefault(f"{name}={type(value).__name__}", []).extend(_changed_fields(value))
        elif name in _MOVED:
            keyword, kind, field = _MOVED[name]
            calls.setdefault(f"{keyword}={kind.__name__}", []).append(f"{field}={shown}")
        else:
            calls[f"{name}={shown}"] = []
    return ", ".join(
        f"{call}({', '.join(given)})" if given else call for call, given in calls.items()
    )


def _changed_fields(value: Any) -> list[str]:
    given = ((field.name, getattr(value, field.name), field.default) for field in fields(value))
    return [f"{name}={now!r}" for name, now, usual in given if now != usual]


def with_settings(keywords: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a Loader, with further settings put into the value objects that hold them.

    Args:
        keywords: Keywords of a Loader, such as ``execution=Execution(...)``.
        settings: Settings by plain name, such as "prefetch" (a field of Execution) and "seed".

    Raises:
        LoaderError: A value is not allowed.

    Example:
        >>> with_settings({"execution": Execution(exact=True)}, {"seed": 1, "prefetch": 4})["execution"].prefetch
        4
    """
    merged = dict(keywords)
    for name, value in settings.items():
        if name not in _MOVED:
            merged[name] = value
            continue
        keyword, kind, field = _MOVED[name]
        before = merged.get(keyword)
        change = {field: value}
        merged[keyword] = replace(before, **change) if isinstance(before, kind) else kind(**change)
    return merged


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``": use ..."`` with the known name that is most similar to `name`, or "" if none is similar."""
    near = name if name in _ELSEWHERE else closest(name, [*known, *_ELSEWHERE, *_MOVED])
    if near in _MOVED and near not in known:
        return f": use {spelled({near: ...})}"
    return f": use {_ELSEWHERE.get(near, near)}" if near else ""


def is_known(owner: type, name: str) -> bool:
    """Return whether a class has an attribute or a constructor argument of this name."""
    return hasattr(owner, name) or name in signature(owner).parameters or name in _MOVED


def refuse_attribute(loader: Any, name: str, value: Any) -> NoReturn:
    """Raise the error for an attempt to set an attribute of a loader, because that would have no effect.

    Raises:
        AttributeError: Always; the message says what to do instead.
    """
    arguments = signature(type(loader).__init__).parameters
    if name == "epoch":
        advice = f"call loader.set_epoch({value!r})"
    elif name in arguments or name in _MOVED or hasattr(loader, name):
        advice = "make another loader, and give it the state of this one"
    else:
        advice = f"a loader has no {name!r}{meant(name, arguments)}"
    raise AttributeError(
        f"loader.{name} = ... would change nothing: {advice}", name=name, obj=loader
    )
