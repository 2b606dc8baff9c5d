"""Make the plan of shards, and store it at the destination."""

import importlib.metadata
from collections.abc import Mapping
from platform import node
from typing import Any, Literal

from readers.detect.registry import require
from readers.formats.stream import TarStream
from readers.jpeg_seek_points.finder import Finder
from readers.order.shuffle import Order
from readers.prepare.errors import PrepareError
from readers.prepare.shards.boundaries import cut
from readers.prepare.shards.packable import (
    check_apart,
    check_folder,
    check_source,
    stream_plan_error,
)
from readers.prepare.shards.plan import FOLDER, MANIFEST, Plan, plan_of
from readers.prepare.source import PlannedSource, open_source, planned_source
from readers.sample import Dataset, PathLike
from readers.storage.destination import Destination, open_destination
from readers.storage.paths import shown_path
from readers.storage.remote import StorageOptions

PLAN = f"{FOLDER}/plan.json"
"""Name of the file of the plan. It is written after the file of boundaries, so that it never exists without that."""
_BOUNDARIES = f"{FOLDER}/boundaries"
_PACKING = 2
"""Version of the code that writes samples; goes up whenever a plan may give other bytes than before."""
_NOT_INSTALLED = "not installed"  # if a cluster was sent the code without installing the package
_DEFAULTS = {"format": "tar"}  # settings that are left out of plans and manifests


def plan_shards(
    source: str | Dataset,
    destination: PathLike,
    *,
    bytes_per_shard: int = 256_000_000,
    format: Literal["tar", "parquet"] = "tar",
    shuffle: int | None = None,
    finder: Finder | None = None,
    source_format: str | None = None,
    storage: StorageOptions | None = None,
    **options: Any,
) -> Plan:
    """Make the plan of a pack, which assigns samples to shards, store it at the destination, and return it.

    The plan depends only on the data and the settings, so every task of an array job may make it. Planning
    reads 64 samples and the sizes of all samples, and takes 8 bytes of memory per sample.

    Args:
        source: A source as for `readers.open_dataset`, or a dataset, which is pickled with the plan.
        destination: The folder of the shards, or a URL such as ``s3://bucket/train``.
        bytes_per_shard: The largest size of a shard in bytes. It is exact if the source gives the size of every sample and
            all samples have equally many fields; samples with more fields than others may add some kilobytes. A larger
            sample gets a shard of its own.
        format: Format of the shards, "tar" (WebDataset) or "parquet".
        shuffle: Seed of the order of the samples; None keeps the order of the source.
        finder: Finds the seek points of each JPEG, see `pack`; it must be picklable. None writes no seek points.
        source_format: Name of the source's format; None if it is detected.
        storage: Options of the connection to a destination in an object store.
        options: ``split`` and options of the source's format, as for `readers.open_dataset`.

    Raises:
        PrepareError: The source can only be read from front to back, shards cannot hold its samples, or the destination
            holds other files or another plan.
        ReadersError: The source cannot be opened or read.

    Example:
        >>> from readers.prepare import make_shard, merge, plan_shards
        >>> plan = plan_shards("photos/", "by_plan/", bytes_per_shard=40_000, shuffle=0)
        >>> entries = [make_shard(plan, number) for number in range(len(plan))]
        >>> entries[0]["name"], merge(plan).num_samples
        ('shard-000000.tar', 36)
    """
    check_settings(format, bytes_per_shard, shuffle)
    place = open_destination(destination, storage)
    check_folder(place, format)
    if isinstance(source, str):
        check_apart(source, place)
        dataset = open_source(source, format=source_format, **options)
        check_source(source, dataset, shuffle)
    else:
        dataset = source
        check_source("the dataset", dataset, shuffle)
    if isinstance(dataset, TarStream):
        raise stream_plan_error(source)
    opener = planned_source(source, dataset, source_format, options)
    settings = settings_of(dataset.fingerprint, len(dataset), format, bytes_per_shard, shuffle)
    return planned(dataset, place, settings, opener, finder)


def planned(
    dataset: Dataset,
    destination: Destination,
    settings: Mapping[str, Any],
    source: PlannedSource,
    finder: Finder | None = None,
) -> Plan:
    """Make the plan of an opened dataset, store it at the destination, and return it; see `plan_shards`."""
    order, format = order_of(settings, len(dataset)), settings.get("format", "tar")
    most_bytes = settings["shard_size_bytes"]
    boundaries, sizes = cut(dataset, order, bytes_per_shard=most_bytes, in_tar=format == "tar")
    plan = Plan(
        destination,
        settings,
        versions(format),
        tuple(dataset.class_names),
        boundaries,
        sizes,
        source,
        finder,
    )
    keep_plan(plan)
    return plan


def load_plan(destination: PathLike, storage: StorageOptions | None = None) -> Plan:
    """Return the plan that is stored at a destination; it can be merged without access to the data.

    Raises:
        PrepareError: The destination has no plan, the plan is damaged, or it is the plan of a stream.

    Example:
        >>> from readers.prepare import load_plan, plan_shards
        >>> plan = plan_shards("photos/", "kept/", bytes_per_shard=40_000)
        >>> load_plan("kept/").identity == plan.identity
        True
    """
    plan = _load(open_destination(destination, storage))
    if plan.settings["samples"] is None:
        raise PrepareError(
            f"{shown_path(plan.destination.location)} holds shards of a stream, whose plan has no boundaries: continue it with "
            "the command that began it"
        )
    return plan


def _load(place: Destination) -> Plan:
    document, steps = place.read(PLAN), place.read(_BOUNDARIES)
    where = shown_path(place.location)
    if document is None or steps is None:
        raise PrepareError(
            f"{where} holds no plan of shards: begin with the same command without --merge"
        )
    try:
        return plan_of(document, steps, place)
    except (ValueError, KeyError, TypeError):
        raise PrepareError(
            f"{where}/{PLAN} is damaged or of another version: give a new folder"
        ) from None


def check_settings(format: str, bytes_per_shard: int, shuffle: int | None) -> None:
    """Check the settings of a pack.

    Raises:
        PrepareError: A setting is not allowed.
    """
    if format not in ("tar", "parquet"):
        raise PrepareError(f"format must be tar or parquet, got {format!r}: choose one")
    if shuffle is not None and shuffle < 0:
        raise PrepareError(f"shuffle must be 0 or more, got {shuffle}: it is a seed")
    if bytes_per_shard < 1:
        raise PrepareError(f"bytes_per_shard must be 1 or more, got {bytes_per_shard}")


def settings_of(
    fingerprint: str,
    num_samples: int | None,
    format: str,
    bytes_per_shard: int,
    shuffle: int | None,
) -> dict[str, Any]:
    """Return the settings of a pack in the form of its plan and manifest.

    Args:
        fingerprint: Fingerprint of the source.
        num_samples: Number of samples in the source; None for a stream.
        format: Format of the shards.
        bytes_per_shard: Largest size of a shard.
        shuffle: Seed of the order of the samples, or None.
    """
    settings: dict[str, Any] = {
        "source": fingerprint,
        "samples": num_samples,
        "tile": False,  # stored plans have it, and it is part of their identity
        "shard_size_bytes": bytes_per_shard,
        "shuffle": shuffle,
    }
    return settings if format == "tar" else settings | {"format": format}


def order_of(settings: Mapping[str, Any], length: int) -> Order | None:
    """Return the order of the samples in a pack; None if it is the order of the source.

    Args:
        settings: Settings of the pack.
        length: Number of samples.
    """
    seed = settings["shuffle"]
    return None if seed is None else Order(length, seed=seed)


def begun_otherwise(
    where: str, before: dict[str, Any], now: dict[str, Any], then: str = ""
) -> PrepareError:
    """Return the error for a destination where a pack of other data or settings was begun.

    Args:
        where: The destination, as shown in the error.
        before: Settings of the pack that was begun there.
        now: Settings of the requested pack.
        then: Further advice, appended to the error.
    """
    before, now = _DEFAULTS | before, _DEFAULTS | now
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    changes = [
        f"{name} was {before.get(name)}, is {now.get(name)}"
        for name in names
        if name not in ("source", "samples")
    ]
    kind, counts = "settings", (before.get("samples"), now.get("samples"))
    if "source" in names:
        kind = "data"
        if None not in counts:  # the number of samples of a stream is unknown
            changes = [f"{counts[0]} samples then, {counts[1]} now", *changes]
    elif not changes:
        changes = ["other boundaries of shards"]
    listed = f" ({'; '.join(changes)})" * bool(changes)
    return PrepareError(
        f"{where} was begun with other {kind}{listed}: repeat the command with the same data and settings, or give a new "
        f"folder{then}"
    )


def require_versions(plan: Plan) -> None:
    """Check that a plan was made with the library versions installed here; other versions may write other bytes.

    Raises:
        PrepareError: Versions differ; the text names this machine and its versions.
    """
    here = versions(plan.format)
    unknown = _NOT_INSTALLED in (here["gpu-aug"], plan.versions.get("gpu-aug"))
    words = [
        f"{name} {here.get(name)} instead of {made_with}"
        for name, made_with in plan.versions.items()
        if here.get(name) != made_with and not (name == "gpu-aug" and unknown)
    ]
    if words:
        raise PrepareError(
            f"{node()} has {', '.join(words)}, which the plan of {shown_path(plan.destination.location)} was made with: "
            "install the same on all machines"
        )


def versions(format: str) -> dict[str, Any]:
    """Return the installed versions of the packages that the bytes of a shard depend on, by package name."""
    try:
        own = importlib.metadata.version("gpu-aug")
    except importlib.metadata.PackageNotFoundError:
        own = _NOT_INSTALLED
    found: dict[str, Any] = {"packing": _PACKING, "gpu-aug": own}
    if format != "tar":
        found["pyarrow"] = require("pyarrow", extra="arrow").__version__
    return found


def keep_plan(plan: Plan) -> None:
    """Store a plan at its destination, unless it is there already.

    Raises:
        PrepareError: The destination holds another plan, or other files.
    """
    place, document = plan.destination, plan.document()
    found = place.read(PLAN)
    if found == document:
        return
    where = shown_path(place.location)
    if found is not None:
        stored = _load(place)
        is_begun = any(name not in (PLAN, _BOUNDARIES) for name in place.names())
        raise begun_otherwise(
            where,
            {**stored.settings, **stored.versions, "class names": stored.class_names},
            {**plan.settings, **plan.versions, "class names": plan.class_names},
            ""
            if is_begun
            else f"; no shard is there yet, so where nothing runs {FOLDER} may be removed",
        )
    _check_empty(place)
    with place.create(_BOUNDARIES) as file:
        file.write(plan.steps()[0])
    with place.create(PLAN) as file:
        file.write(document)


def _check_empty(place: Destination) -> None:
    """Check that a destination without a plan is empty.

    Raises:
        PrepareError: The destination holds shards or other files.
    """
    where = shown_path(place.location)
    if place.read(MANIFEST) is not None:
        raise PrepareError(
            f"{where} holds a {MANIFEST} and no plan, so its shards cannot be continued: give a new folder"
        )
    if any(
        not name.rpartition("/")[2].startswith(".gpuaug-") and name != _BOUNDARIES
        for name in place.names()
    ):
        raise PrepareError(
            f"{where} holds files and no {MANIFEST} of an earlier run: give a new or empty folder"
        )
