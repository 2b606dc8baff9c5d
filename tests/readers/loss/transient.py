"""One read that fails with EIO, as on a network file system for a moment: the sample is read again, and is sound."""

import errno
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from PIL import Image

from readers import Sample, open_dataset
from readers.detect.registry import FORMATS
from tests.support.kinds import by_pillow
from tests.support.loss import Cell, NotApplicable
from tests.support.one_other import writer_of
from tests.support.writers import Written


def small_jpeg(seed: int) -> bytes:
    """Return a JPEG of one colour."""
    return by_pillow("JPEG", Image.new("RGB", (91, 80), (seed * 40 % 256, 90, 160)))


@contextmanager
def failing_disk(times: int) -> Iterator[list[str]]:
    """Let the first opens and reads of files fail with EIO, of code that calls the operating system through `os`."""
    failed: list[str] = []

    def failing(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(first: Any, *rest: Any, **options: Any) -> Any:
            is_data = isinstance(first, int) or ".gpuaug" not in os.fspath(first)
            if is_data and len(failed) < times:
                failed.append(name)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(first, *rest, **options)

        return call

    names = ("open", "read", "pread")
    with (
        mock.patch("readers.datasets.fetched.PAUSES_SECONDS", (0, 0)),
        mock.patch.multiple(os, **{name: failing(name) for name in names}),
    ):
        yield failed


def write_samples(name: str, folder: Path) -> Any:
    """Write three samples in a format; return what `open_dataset` takes."""
    samples = [Written(f"photo-{at}", small_jpeg(seed=at), at % 2) for at in range(3)]
    return writer_of(name).write(folder, samples)


def open_written(name: str, folder: Path) -> Any:
    """Write three samples in a format and open them."""
    source = write_samples(name, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of class lists that are not there
        return open_dataset(source, format=name)  # type: ignore[call-overload]


def _cell(name: str) -> Cell:
    def cell(folder: Path) -> None:
        before = open_written(name, folder)
        fingerprint = before.fingerprint
        opened = pickle.loads(pickle.dumps(before))
        with failing_disk(times=1) as failed:
            [sample] = opened.fetch([1])
        assert failed, "nothing was read through os"
        assert isinstance(sample, Sample), sample

        opened = pickle.loads(pickle.dumps(before))
        with failing_disk(times=1000):
            [sample] = opened.fetch([1])
        assert sample.transient
        assert [type(one) for one in opened.fetch([1])] == [Sample], "the failure was kept"
        assert opened.fingerprint == fingerprint

    return cell


CELLS: dict[str, Cell] = {name: _cell(name) for name in FORMATS} | {
    "stream": NotApplicable(
        "A stream is read forward and once, and an error of the storage ends it."
    ),
    "frame-folder": NotApplicable(
        "A sample is a list of names; the frames are read when clips are cut."
    ),
    "arrayrecord": NotApplicable(
        "Its library reads the files itself, where no test makes them fail."
    ),
    "lance": NotApplicable("Its library reads the files itself, where no test makes them fail."),
}
