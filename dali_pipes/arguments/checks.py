"""Checks of a loader's arguments: each names what it got, what is allowed and what to do."""

import os
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch

from dali_pipes.arguments.not_a_dataset import not_a_dataset
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.samples.targets import KINDS
from dali_pipes.steps.schedule import MAX_EPOCH
from dali_pipes.steps.streams.order import stream_order
from gpu_aug import Normalize, Recipe
from gpu_aug.image_kind import ImageKind
from gpu_aug.targets.soft_labels import class_count
from gpu_aug.views import Views
from readers import Dataset, ReadersError, Sample
from readers.first_samples import probed_samples
from readers.label_vector import LabelShape, class_number, label_shape_of
from readers.order import SHUFFLES, AnyOrder, Shuffle, make_order
from readers.sample import mask_number
from readers.stream import is_stream

_NUM_PROBED = 8  # samples that a warning rests on: two requests
_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)


def require_dataset(dataset: Dataset) -> None:
    """Refuse what has not the interface of a dataset or of a stream, or holds nothing."""
    if is_stream(dataset):
        return
    require_fetch(dataset)
    if len(dataset) == 0:
        raise LoaderError("the dataset is empty; a loader needs at least one sample")


def require_fetch(dataset: Dataset) -> None:
    """Refuse what has not the interface of a dataset."""
    if is_stream(dataset):
        raise LoaderError(
            f"{type(dataset).__name__} can only be read from front to back, and clips are taken from anywhere: make "
            "shards of it with gpu-aug pack SOURCE FOLDER, and open those"
        )
    if not hasattr(dataset, "fetch"):
        raise not_a_dataset(dataset)


def require_positive(**values: int) -> None:
    """Refuse anything but integers of 1 or more."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise LoaderError(f"{name}={value!r} is not allowed; give an integer of 1 or more")


def require_not_negative(**values: int) -> None:
    """Refuse anything but integers of 0 or more."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            as_int = f", as int({name})" if hasattr(value, "__index__") and not value < 0 else ""
            raise LoaderError(
                f"{name}={value!r} is not allowed; give an integer of 0 or more{as_int}"
            )


def require_share(**values: float) -> None:
    """Refuse anything but numbers from 0 to 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise LoaderError(f"{name}={value!r} is not allowed; give a number from 0 to 1")


def require_truths(**values: bool) -> None:
    """Refuse anything but True and False: the text "no" would count as true."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise LoaderError(f"{name}={value!r} is not allowed; give True or False")


def require_helper_process(value: Any) -> None:
    """Refuse what is no number of helper processes."""
    is_number = isinstance(value, int | np.integer | np.bool_) and value >= 0
    if not is_number and not (isinstance(value, str) and value == "auto"):
        raise LoaderError(
            f'helper_process={value!r} is not allowed; give "auto", True, False, or a number of processes'
        )


def require_in_use(
    *,
    decode: str,
    decoder: Any,
    hw_decoder_load: float,
    on_bad_sample: str,
    max_bad_samples: int | None,
) -> None:
    """Refuse arguments that would do nothing beside others.

    Raises:
        LoaderError: The text says which, and what to leave out.
    """
    if decode == "fast" and decoder not in ("auto", "cpu"):
        raise LoaderError(
            'decode="fast" is for decoder="cpu" alone, DALI decodes exactly in any case; leave one of them out'
        )
    if hw_decoder_load != 1 and decoder != "dali":
        raise LoaderError(
            f'{hw_decoder_load=} is for decoder="dali" alone; leave it out, and set that of a pipeline of your own there'
        )
    if max_bad_samples is not None:
        require_not_negative(max_bad_samples=max_bad_samples)
    if max_bad_samples is not None and on_bad_sample == "raise":
        raise LoaderError(
            f'{max_bad_samples=} is for on_bad_sample="replace" or "skip", and "raise" ends with the first; leave it '
            f"out, or choose one of these"
        )


def require_cache(cache: Any, decoder: Any) -> None:
    """Refuse a cache that is not known, or that the decoder does not have.

    Raises:
        LoaderError: The text says what to do.
    """
    if cache not in (None, "device"):
        raise LoaderError(f'{cache=} is not known; allowed are None and "device"')
    if cache is not None and decoder != "cuda":
        raise LoaderError(
            f'cache="device" keeps on the GPU what decoder="cuda" decodes, and {decoder=}; name that decoder, or leave cache out'
        )


def require_two_files(audit: Any, ledger: Any) -> None:
    """Refuse one file for the lines of both."""
    if None not in (audit, ledger) and os.path.abspath(audit) == os.path.abspath(ledger):  # noqa: PTH100 - of either type
        raise LoaderError(
            f"audit and ledger are both {os.fspath(audit)!r}; give each a file of its own"
        )


def require_workers(workers: Any, *, helper_process: Any, num_threads: int | None) -> None:
    """Refuse what are no workers, and what is of no use beside them.

    Raises:
        LoaderError: The text says what to leave out.
    """
    if workers is None:
        return
    if not isinstance(workers, RayWorkers):
        raise LoaderError(
            f"workers={workers!r} is not allowed; give RayWorkers(count) of dali_pipes.integrations.ray.workers, or "
            "num_threads for threads of this process"
        )
    if helper_process and helper_process != "auto":
        raise LoaderError(
            f"{helper_process=} and workers= both make the batches outside this process; leave one of them out"
        )
    if num_threads is not None:
        raise LoaderError(
            f"{num_threads=} is for threads of this machine, and workers= makes the batches on others; give "
            "RayWorkers(..., num_cpus=...), as many threads each has"
        )


def require_epoch(epoch: int) -> None:
    """Refuse what is no number of an epoch."""
    is_whole = isinstance(epoch, int | np.integer) and not isinstance(epoch, bool)
    if not is_whole or not 0 <= epoch <= MAX_EPOCH:
        raise LoaderError(f"{epoch=} is not allowed; give an integer from 0 to {MAX_EPOCH}")


def require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a choice that is not known."""
    if value not in allowed:
        names = ", ".join(f'"{choice}"' for choice in allowed)
        raise LoaderError(f"{name}={value!r} is not known; allowed are {names}")


def require_dtype(dtype: torch.dtype, views: Views) -> None:
    """Refuse a type that the finished images cannot have."""
    if dtype not in _DTYPES:
        names = ", ".join(str(allowed) for allowed in _DTYPES)
        raise LoaderError(f"dtype={dtype!r} is not supported; allowed are {names}")
    leaves = [leaf for recipe in views.recipes for leaf in recipe.leaves]
    if dtype == torch.uint8 and any(isinstance(leaf, Normalize) for leaf in leaves):
        raise LoaderError(
            "dtype=torch.uint8 cannot hold normalised values, and the recipe has Normalize; leave "
            "Normalize out, or use a floating dtype"
        )


def require_kind(kind: ImageKind, views: Views, dtype: torch.dtype) -> None:
    """Refuse recipes that do not take images of a kind, and a type that cannot hold them.

    Raises:
        LoaderError: The type.
        gpu_aug.RecipeError: An operation, by its name.
    """
    if dtype == torch.uint8 and kind.depth != 8:
        raise LoaderError(
            f"dtype=torch.uint8 cannot hold images of depth={kind.depth!r}; use a floating dtype"
        )
    for recipe in views.recipes:
        kind.require_fits(recipe.operations)


def target_kinds(targets: Any) -> frozenset[str]:
    """Return the kinds of targets that are asked for, all of KINDS for "auto"."""
    if targets == "auto":
        return frozenset(KINDS)
    wrong = isinstance(targets, str) or not isinstance(targets, Collection)
    if wrong or not all(kind in KINDS for kind in targets):
        names = ", ".join(f'"{kind}"' for kind in KINDS)
        raise LoaderError(
            f'targets={targets!r} is not known; allowed are "auto", or some of {names}, such as '
            f'["boxes"], or [] for none'
        )
    return frozenset(targets)


def check_labels_of_views(views: Views) -> None:
    """Refuse later views whose labels would be others than those of the first."""
    if any(recipe.group > 1 for recipe in views.recipes[1:]):
        raise LoaderError(
            "a view after the first mixes samples, but the labels of a batch are those of its first "
            "view; mix in the first view alone, or give the loader one recipe"
        )


def num_classes_of(recipes: Sequence[Recipe], dataset: Dataset) -> int | None:
    """How many classes the labels of mixed samples have; None where nothing is mixed, or without labels.

    Of labels that are vectors it is their length.

    Args:
        recipes: The run's recipes that make labels.
        dataset: Tells the names of the classes.

    Raises:
        LoaderError: Samples with labels are mixed, and nobody says how many classes there are, or two say it, or labels are
            vectors of another length, or of several.
    """
    mixing = [recipe for recipe in recipes if recipe.group > 1]
    if not mixing:
        return None
    told = sorted({count for recipe in mixing if (count := class_count(recipe))})
    if len(told) > 1:
        raise LoaderError(
            f"the recipes of the run have {told[0]} and {told[1]} classes; give all of them one num_classes"
        )
    shape = label_shape_of(dataset)
    if shape != ():
        return _vector_length(told, shape)
    count = told[0] if told else len(dataset.class_names)
    if is_stream(dataset):
        if count:
            return count
        raise no_class_count(mixing[0])
    unlabelled = _unlabelled(dataset)
    # With a class count the first batch is refused; the few samples that were looked at prove nothing.
    if unlabelled and not count and not any(map(_has_targets, unlabelled)):
        name = next(type(leaf).__name__ for leaf in mixing[0].leaves if leaf.group > 1)
        warnings.warn(
            f"{name} mixes samples with their labels, but the data seems to have none ({unlabelled[-1].key} has not), so that "
            f"batch.labels is -1 throughout; give labels, open_dataset(..., labels=...), or a recipe that "
            f"mixes nothing",
            stacklevel=5,
        )
    if count or unlabelled:
        return count or None
    raise no_class_count(mixing[0])


def _unlabelled(dataset: Dataset) -> list[Sample]:
    """Return a few samples that can be read, if none of them has a label; else nothing."""
    found = []
    for sample in probed_samples(dataset, _NUM_PROBED):  # nearly always the first one ends it
        if class_number(sample.label) != -1:
            return []
        found.append(sample)
    return found


def _has_targets(sample: Sample) -> bool:
    """Whether a sample may have boxes or masks, whose labels are of their own."""
    return any(name == "json" or mask_number(name) is not None for name in sample.fields)


def _vector_length(told: Sequence[int], shape: LabelShape) -> int:
    """The length of the vectors that are mixed; ``told`` has the number of classes that recipes name, if they do."""
    if shape is None:
        raise LoaderError(
            "the recipe mixes samples, and with them their labels, but the labels are vectors of several lengths; use a "
            "recipe that mixes nothing, or give all labels one length"
        )
    if told and told[0] != shape[0]:
        raise LoaderError(
            f"num_classes={told[0]} in the recipe is not the length of the labels, which are vectors of {shape[0]} numbers; "
            "correct it, or leave it out"
        )
    return shape[0]


def no_class_count(recipe: Recipe) -> LoaderError:
    """The error for labels that are mixed without knowing how many classes there are."""
    name = next(type(leaf).__name__ for leaf in recipe.leaves if leaf.group > 1)
    return LoaderError(
        f"{name} mixes labels, and neither the recipe nor the dataset says how many classes there are; "
        f"give it, as in {name}(num_classes=1000)"
    )


def order_of(dataset: Dataset, seed: int, shuffle: Shuffle, shuffle_window: int | None) -> AnyOrder:
    """Return the order of the samples: the dataset's own, if it has one.

    Raises:
        LoaderError: The dataset has no such order.
    """
    require_one_of("shuffle", shuffle, SHUFFLES)
    if shuffle_window is not None:
        require_positive(shuffle_window=shuffle_window)
        if shuffle != "block":
            raise LoaderError(
                f'{shuffle_window=} is for shuffle="block" alone, got {shuffle=}; leave one of them out'
            )
    if is_stream(dataset):
        return stream_order(dataset, seed, shuffle, shuffle_window)
    make = getattr(dataset, "order", None)
    if make is None:
        return make_order(
            len(dataset),
            seed,
            shuffle,
            block_size=getattr(dataset, "block_size", 256),
            shuffle_window=shuffle_window,
        )
    try:
        order: AnyOrder = make(seed=seed, shuffle=shuffle, shuffle_window=shuffle_window)
    except ReadersError as error:
        raise LoaderError(str(error)) from error
    return order


def budget_of(max_bad_samples: int | None, length: int) -> int:
    """Return how many different samples may be bad; see Loader."""
    if max_bad_samples is None:
        return min(max(100, length // 100), length // 2)
    return max_bad_samples
