"""Inspect single entries of a dataset: images, videos, and frames of LeRobot datasets, which are frames of shared videos."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Literal

from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.image.header import Header, read_header
from readers.image.jpeg_process import jpeg_process
from readers.labels.label_vector import class_number
from readers.prepare.inspection.findings import Look
from readers.prepare.inspection.kind import is_video
from readers.prepare.inspection.videos import Checks, look_at_video
from readers.sample import BadSample, Dataset, HeaderError, Sample, SourceError
from readers.storage.copies import copied_sample
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FRAMES_CODEC, FrameFolderDataset
from readers.video.info import VideoInfo

# The default `max_pixels` of the loader, which refuses larger images.
_MAX_PIXELS = 100_000_000

Entry = Sample | BadSample


def own_sizes(sample: Sample) -> dict[str, int]:
    """Return bytes by field, without the videos, which several samples share."""
    return {name: len(data) for name, data in sample.fields.items() if not name.endswith(".mp4")}


def header_of(dataset: LeRobotDataset, sample: Sample) -> Header | None:
    """Return the header of the first camera's pictures from its video; None if the pictures are in tables or files."""
    info = dataset.camera(0).info(dataset.place(sample.index))
    if not isinstance(info, VideoInfo) or info.codec == FRAMES_CODEC:
        return None
    return Header(info.codec, info.height, info.width, 1)


def check_pictures(dataset: LeRobotDataset, sample: Sample, checks: Checks) -> str:
    """Decode the pictures of all cameras, and return the first error, "" if there is none."""
    place = dataset.place(sample.index)
    for number, name in enumerate(dataset.cameras):
        camera = dataset.camera(number)
        try:
            info, frames = camera.shown(place)
        except (VideoError, SourceError, OSError) as error:
            return f"{name}: {error}"
        if info.codec != FRAMES_CODEC:
            reasons = [checks.video(sample.fields[f"{name}.mp4"], info, frames)]
        else:
            found = camera.pictures(place, frames)
            reasons = [
                one.reason if isinstance(one, BadSample) else checks.image(one, camera.size)
                for one in found
            ]
        if any(reasons):
            return f"{name}: {next(filter(None, reasons))}"
    return ""


def look_of(dataset: Dataset | TarStream, checks: Checks | None) -> Callable[[Entry], Look]:
    """Return the function that inspects an entry of a dataset, and decodes it if there are checks."""
    if isinstance(dataset, LeRobotDataset):
        return partial(_look_at_frame, dataset=dataset, checks=checks)
    folders = dataset if isinstance(dataset, FrameFolderDataset) else None
    return partial(_look, folders=folders, checks=checks)


def _look_at_frame(entry: Entry, dataset: LeRobotDataset, checks: Checks | None) -> Look:
    if isinstance(entry, BadSample):
        return _look(entry, None, checks)
    seen = _look(replace(entry, fields={}, image_field=None), None, None)
    seen = seen._replace(sizes=own_sizes(entry), header=header_of(dataset, entry))
    if seen.header is None:
        assert entry.image is not None
        seen = seen._replace(header=read_header(entry.image))
    if checks is not None and (reason := check_pictures(dataset, entry, checks)):
        return seen._replace(bad=BadSample(entry.index, entry.key, "decode", reason))
    return seen


def _look(entry: Entry, folders: FrameFolderDataset | None, checks: Checks | None) -> Look:
    digest = int.from_bytes(
        blake2b(entry.key.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little"
    )
    if isinstance(entry, Sample):
        entry = copied_sample(entry)
    if isinstance(entry, BadSample):
        return Look(entry.index, digest, -1, {}, bad=entry)
    sizes = {name: len(data) for name, data in entry.fields.items()}
    boxes = _box_labels(entry)
    seen = Look(entry.index, digest, class_number(entry.label), sizes, box_labels=boxes)
    if folders is not None:  # its field lists the pictures; it is not stored
        return _with_video(seen._replace(sizes={}), entry, folders, checks)
    if is_video(entry):
        return _with_video(seen, entry, None, checks)
    if entry.image is None:
        return seen
    try:
        header, process = read_header(entry.image), jpeg_process(entry.image)
        seen = seen._replace(header=header, process=process)
    except HeaderError as error:
        return seen._replace(bad=BadSample(entry.index, entry.key, "header", str(error)))
    return seen if checks is None else _with_verdict(seen, entry, checks)


def _box_labels(sample: Sample) -> tuple[int, ...]:
    """Return the class numbers of a sample's boxes; none if the field ``json`` holds something else."""
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
    """Decode an image, and add the error if there is one."""
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


def _with_video(
    look: Look, sample: Sample, folders: FrameFolderDataset | None, checks: Checks | None
) -> Look:
    stage: Literal["header", "decode"] = "header"
    try:
        look = look._replace(video=look_at_video(sample, folders))
        if checks is not None:
            stage = "decode"
            look_at_video(sample, folders, checks)
    except VideoError as error:
        return look._replace(video=None, bad=BadSample(sample.index, sample.key, stage, str(error)))
    return look
