"""Data in a store that only the dataset's own options reach: by the copy of a process, a selection and a list of classes as well."""

import atexit
import functools
import os
import pickle
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from readers import Sample, open_dataset
from readers.detect.registry import FORMATS
from tests.readers.loss.transient import write_samples
from tests.support.loss import Cell, NotApplicable
from tests.support.s3_server import storage


@functools.cache
def served() -> tuple[str, Path]:
    """Start a server for this process; return its URL, and the folder of its buckets."""
    running = ExitStack()
    atexit.register(running.close)
    root = Path(running.enter_context(tempfile.TemporaryDirectory()))
    return running.enter_context(storage(root)).url, root


def _files(name: str, source: Any) -> list[Path]:
    """Return the files to name of what a writer wrote."""
    if isinstance(source, list):
        return source
    wanted = {"lerobot": "meta/info.json", "mds": "index.json", "lmdb": "data.mdb"}.get(
        name, f"*.{name}*"
    )
    return sorted(Path(source).glob(wanted)) if Path(source).is_dir() else [Path(source)]


def _cell(name: str) -> Cell:
    def cell(folder: Path) -> None:
        local = _files(name, write_samples(name, folder))
        url, root = served()
        bucket = f"bucket-{name}"
        shutil.copytree(folder, root / bucket)
        places = [f"s3://{bucket}/{os.path.relpath(path, folder)}" for path in local]
        options: dict[str, Any] = {"endpoint": url, "anonymous": True, "cache_bytes": 0}
        options |= {"retries": 0, "timeout_seconds": 2.0}

        near, away = (
            open_dataset(where, format=name, **more)  # type: ignore[call-overload]
            for where, more in ((local, {}), (places, options))
        )

        copied = pickle.loads(pickle.dumps(away))
        assert away.fingerprint == copied.fingerprint == near.fingerprint
        assert away.class_names == copied.class_names == near.class_names
        for one in (away, copied, away.take(2), away.with_labels([0, 1, 2])):
            assert all(isinstance(sample, Sample) for sample in one.fetch([0, 1]))

    return cell


CELLS: dict[str, Cell] = {
    name: _cell(name)
    if kind.remote and kind.random_access
    else NotApplicable("It is read forward, which has tests of its own.")
    if kind.remote
    else NotApplicable(
        "It is read from this machine's files, and a URL is refused when it is opened."
    )
    for name, kind in FORMATS.items()
}
