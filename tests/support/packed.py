"""What the tests of packing look at."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from webdataset.tariterators import group_by_keys, tar_file_expander

from readers import Sample, open_dataset
from tests.support.commands import Run

Jpeg = Callable[..., bytes]


ROOT = Path(__file__).resolve().parents[2]

KILL = """
import os, signal, sys
from readers.prepare import make_shard, merge, pack, tar_shards
from readers.prepare.shards import making, merging, planning
from readers.storage.destination import indexes, local, remote
from readers.storage import atomic_file
from bench.cli import main
module, name, most = sys.argv[1].split(":")
owner = sys.modules[module]
for part in name.split(".")[:-1]:
    owner = getattr(owner, part)
name = name.split(".")[-1]
function, count = getattr(owner, name), 0
def killing(*given, **named):
    global count
    count += 1
    if count == int(most):
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*given, **named)
setattr(owner, name, killing)
main(["pack", *sys.argv[2:]])
"""
"""A pack that is killed when a function is called for the n-th time: ``python -c KILL MODULE:FUNCTION:N SRC DST ...``."""


def shards_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tar"))


def by_webdataset(folder: Path) -> list[dict[str, bytes]]:
    with ExitStack() as stack:  # webdataset itself leaves its files open
        shards = [
            {"url": shard.name, "stream": stack.enter_context(shard.open("rb"))}
            for shard in shards_in(folder)
        ]
        samples = list(group_by_keys(tar_file_expander(shards)))
    return [
        {name: data for name, data in sample.items() if name == "__key__" or "__" not in name}
        for sample in samples
    ]


def samples_of(folder: Path) -> list[Sample]:
    dataset = open_dataset(folder)
    samples = dataset.fetch(range(len(dataset)))
    assert all(isinstance(sample, Sample) for sample in samples)
    return [sample for sample in samples if isinstance(sample, Sample)]


def content(folder: Path) -> dict[str, bytes]:
    """Shards and manifest; an index holds the time at which its shard was written."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".tar", ".json")
    }


def manifest_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    path = folder / "manifest.json"
    return json.loads(path.read_bytes()) if path.exists() else {"shards": []}


def refused(run: Run, *arguments: object) -> str:
    code, _, printed = run("pack", *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    return printed.replace("\n", " ")
