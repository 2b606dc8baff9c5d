"""A merge that is killed in the middle, at a destination in an object store."""

import subprocess
import sys
from pathlib import Path

import pytest

from readers import open_dataset
from readers.prepare import ArrayTask, LocalExecutor, pack
from readers.storage.destination import open_destination
from readers.storage.remote import StorageOptions
from tests.support.example_data import make_example_data
from tests.support.remote_data import set_up
from tests.support.s3_server import storage

pytestmark = pytest.mark.long

KILLED = """
import os, sys
import readers.prepare.shards.merging as merging
from readers.prepare import pack
from readers.storage.remote import StorageOptions

add, added = merging._add, []

def add_one(*given):
    added.append(given)
    if len(added) == 2:
        os._exit(9)
    add(*given)

merging._add = add_one
options = StorageOptions(endpoint=sys.argv[1])
pack(sys.argv[2], "s3://photos/out", shard_size="30kB", merge=True, storage=options)
"""


def test_it_leaves_no_manifest_and_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there in the end is, byte for byte, what one process makes in a folder."""
    for name in ("obstore", "moto", "flask"):
        pytest.importorskip(name)
    make_example_data(tmp_path)
    set_up(monkeypatch, tmp_path)
    source = str(tmp_path / "photos")
    pack(source, tmp_path / "local", shard_size="30kB")
    with storage("moto") as server:
        server.put("photos")
        options = StorageOptions(endpoint=server.url)
        task = ArrayTask(0, 1, LocalExecutor(1))
        pack(source, "s3://photos/out", shard_size="30kB", executor=task, storage=options)
        there = open_destination("s3://photos/out", options)
        command = [sys.executable, "-c", KILLED, server.url, source]
        killed = subprocess.run(command, timeout=300, check=False)
        after_kill = there.read("manifest.json")
        pack(source, "s3://photos/out", shard_size="30kB", merge=True, storage=options)
        names = [name for name in there.names() if name.endswith((".tar", ".json"))]
        found = {name: there.read(name) for name in names if not name.startswith(".")}
        num_samples = len(open_dataset("s3://photos/out/", endpoint=server.url))

    assert (killed.returncode, after_kill, num_samples) == (9, None, 36)
    assert found == {
        path.name: path.read_bytes()
        for path in (tmp_path / "local").iterdir()
        if path.suffix in (".tar", ".json")
    }
