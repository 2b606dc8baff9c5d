"""An object store that the tests of a process share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.remote_data import set_up
from tests.support.s3_server import Storage, storage


@pytest.fixture(scope="session")
def moto() -> Iterator[Storage]:
    """S3 as moto answers it, with an empty bucket called ``bucket``; each test uses folders of its own."""
    for name in ("obstore", "moto", "flask"):
        pytest.importorskip(name)
    with storage("moto") as server:
        server.put("bucket")
        yield server


@pytest.fixture
def s3(moto: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Storage]:
    """That store with credentials, which after the test fails no more."""
    set_up(monkeypatch, tmp_path)
    moto.count()
    yield moto
    moto.faults()
