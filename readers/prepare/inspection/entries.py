"""Inspect single samples of a dataset."""

import json
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

from readers.datasets.fetched import FetchedDataset
from readers.datasets.inspected import Checks, SampleFacts
from readers.formats.stream import TarStream
from readers.image.header import read_header
from readers.image.jpeg_process import jpeg_process
from readers.labels.label_vector import class_number
from readers.prepare.inspection.findings import Look
from readers.prepare.inspection.kind import is_video
from readers.prepare.inspection.videos import look_at_video
from readers.sample import BadSample, Dataset, HeaderError, Sample
from readers.storage.copies import copied_sample
from readers.video.containers.open import VideoError

# The default `max_pixels` of the loader, which refuses larger images.
_MAX_PIXELS = 100_000_000

Entry = Sample | BadSample


def look_of(dataset: Dataset | TarStream, checks: Checks | None) -> Callable[[Entry], Look]:
    """Return a function that inspects a sample of a dataset, good or bad.

    Args:
        dataset: The dataset.
        checks: Functions with which the sample is also decoded; None decodes nothing.
    """
    method: Any = getattr(type(dataset), "inspect_sample", FetchedDataset.inspect_sample)
    return partial(_look, inspect=partial(method, dataset), checks=checks)


def _look(
    entry: Entry, inspect: Callable[[Sample, Checks | None], SampleFacts], checks: Checks | None
) -> Look:
    digest = int.from_bytes(
        blake2b(entry.key.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little"
    )
    if isinstance(entry, Sample):
        entry = copied_sample(entry)
    if isinstance(entry, BadSample):
        return Look(entry.index, digest, -1, {}, bad=entry)
    facts, boxes = inspect(entry, checks), _box_labels(entry)
    seen = Look(entry.index, digest, class_number(entry.label), facts.sizes, box_labels=boxes)
    if facts.header is not None:
        seen = seen._replace(header=facts.header)
    elif facts.video is not None or is_video(entry):
        return _with_video(seen, entry, facts, checks)
    elif entry.image is None:
        return seen
    else:
        try:
            header, process = read_header(entry.image), jpeg_process(entry.image)
            seen = seen._replace(header=header, process=process)
        except HeaderError as error:
            return seen._replace(bad=BadSample(entry.index, entry.key, "header", str(error)))
    if facts.error:
        return seen._replace(bad=BadSample(entry.index, entry.key, "decode", facts.error))
    return seen if checks is None or facts.error == "" else _with_verdict(seen, entry, checks)


def _box_labels(sample: Sample) -> tuple[int, ...]:
    """Return the class numbers of a sample's boxes, from its field ``json``; empty if that field holds no boxes."""
    try:
        targets = json.loads(bytes(sample.fields.get("json", b"null")))
    # The loader reports damaged targets.
    except (ValueError, RecursionError):
        return ()
    if not isinstance(targets, dict) or "boxes" not in targets:
        return ()
    labels = targets.get("box_labels", targets.get("labels"))
    return tuple(one for one in labels if type(one) is int) if isinstance(labels, list) else ()


def _with_verdict(look: Look, sample: Sample, checks: Checks) -> Look:
    """Decode an image, and return `look` with the error or damage that was found, if any."""
    assert look.header is not None
    assert sample.image is not None
    size = height, width = look.header.height, look.header.width
    if height * width > _MAX_PIXELS:
        reason = f"{height}x{width} pixels, more than the loader's max_pixels={_MAX_PIXELS}"
        return look._replace(bad=BadSample(sample.index, sample.key, "header", reason))
    if reason := checks.image(sample.image, size):
        return look._replace(bad=BadSample(sample.index, sample.key, "decode", reason))
    if reason := checks.damage(sample.image):
        return look._replace(damaged=BadSample(sample.index, sample.key, "decode", reason))
    return look


def _with_video(look: Look, sample: Sample, facts: SampleFacts, checks: Checks | None) -> Look:
    stage: Literal["header", "decode"] = "header"
    try:
        look = look._replace(video=look_at_video(sample, facts.video))
        stage = "decode"
        if facts.error:
            raise VideoError(facts.error)
        if checks is not None and facts.error is None:
            look_at_video(sample, checks=checks)
    except VideoError as error:
        return look._replace(video=None, bad=BadSample(sample.index, sample.key, stage, str(error)))
    return look
