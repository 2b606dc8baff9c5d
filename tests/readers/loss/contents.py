"""Content decides what a file is: a picture of a kind that is not read is named, and is not called a video."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from readers import open_dataset
from readers.detect.registry import FORMATS
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FrameFolderDataset
from readers.video.scan import scan_video
from tests.support.kinds import by_pillow
from tests.support.loss import Cell, NotApplicable
from tests.support.one_other import jpeg, reason_of, reasons, write_and_open, write_stream
from tests.support.opening import open_with_warning
from tests.support.tars import write_samples

WANTED = "DDS, which is not read: convert it to JPEG, PNG or WebP"


def dds() -> bytes:
    """Of a kind that Pillow reads, and this package does not."""
    return by_pillow("DDS", Image.new("RGB", (16, 16)))


def one_is_named(format_name: str, folder: Path) -> None:
    """Whatever it is called, the reason says what it is; the other samples are sound."""
    found = [reason for reason in reasons(write_and_open(format_name, folder, dds())) if reason]

    assert len(found) == 1
    assert WANTED in found[0]
    assert "Clips" not in found[0]


def by_other_names(format_name: str, folder: Path) -> None:
    """A field of that kind alone, and images that are named like a video, whose reasons say so; also for clips."""
    named = "named like a video: name it by what it is"
    fields = {"dds": (dds(), WANTED), "mp4": (dds(), named), "mov": (jpeg(0), named)}
    samples = {f"{number}": {name: data} for number, (name, (data, _)) in enumerate(fields.items())}
    write_samples(folder / "a.tar", samples)
    dataset = open_dataset(folder / "a.tar", format=format_name)  # type: ignore[call-overload]

    for entry, (name, (_, wanted)) in zip(dataset, fields.items(), strict=True):
        assert f"the field {name} is " in reason_of(entry)
        assert wanted in reason_of(entry)
        assert "Clips" not in reason_of(entry)
        if entry.video is not None:
            with pytest.raises(VideoError, match=named):
                scan_video(entry.video)


def tar(folder: Path) -> None:
    one_is_named("tar", folder)
    by_other_names("tar", folder)


def stream(folder: Path) -> None:
    by_other_names("stream", folder)
    found = [reason_of(one) for one in open_dataset(write_stream(folder, dds()), format="stream")]

    assert [reason for reason in found if reason] == [WANTED]


def frames(folder: Path) -> None:
    """A video whose first frame is one says so."""
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "img_0000.jpg").write_bytes(dds() if name == "b" else jpeg(0))
    dataset = FrameFolderDataset(folder)

    assert WANTED in str(dataset.info(1))
    assert WANTED not in str(dataset.info(0))


def videos(folder: Path) -> None:
    """Files that are no videos by their ending, and are by their bytes, are counted when the folder is opened."""
    head = b"\0\0\0\x18ftypisom\0\0\0\0isomiso2" + bytes(50)
    for name in ("a.mp4", "b", "c.m2v"):
        (folder / name).write_bytes(head)
    open_with_warning("1 of no ending, 1 of .m2v.*2 of 3 files", folder, format="video-folder")


CELLS: dict[str, Cell] = {name: partial(one_is_named, name) for name in FORMATS}
_OWN: dict[str, Callable[[Path], None]] = {
    "tar": tar,
    "stream": stream,
    "frame-folder": frames,
    "video-folder": videos,
}
CELLS |= _OWN
CELLS |= {
    "clip-list": NotApplicable("A list names its files, and FFmpeg tells videos by their bytes."),
    "npy": NotApplicable("Its rows are pixels."),
    "lerobot": NotApplicable("Its frames are written by its library."),
}
