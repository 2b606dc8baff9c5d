"""Plans of shards: what decides about them, who may make them, and that all make the same bytes."""

import importlib.metadata
import json
import os
import pickle
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from platform import node
from typing import Any

import numpy as np
import pytest

from readers import SourceError, open_dataset
from readers.prepare import (
    ArrayTask,
    Job,
    LocalExecutor,
    Plan,
    PrepareError,
    load_plan,
    make_shard,
    merge,
    pack,
    packing,
    plan_shards,
)
from readers.prepare.shards import planning
from readers.prepare.shards.boundaries import boundaries_of
from readers.prepare.shards.merging import missing_shards
from tests.support.commands import Run
from tests.support.forks import forks
from tests.support.packed import Jpeg, content, refused, shards_in


def plan_of(source: Path, out: Path, **options: object) -> Plan:
    """A plan of several shards."""
    return plan_shards(str(source), out, bytes_per_shard=30_000, shuffle=3, **options)  # type: ignore[arg-type]


def files_of(folder: Path) -> dict[str, bytes]:
    """Shards of any format, and the manifest."""
    found = [path for path in folder.iterdir() if path.suffix in (".tar", ".json", ".parquet")]
    return {path.name: path.read_bytes() for path in found}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_boundaries_are_those_of_a_loop(seed: int, chunk: int) -> None:
    """A shard begins where the next sample would not fit, however many positions are looked at together."""
    sizes = np.random.default_rng(seed).integers(1, 50, 100)
    expected, open_bytes = [0], 0
    for position, size in enumerate(sizes.tolist()):
        if open_bytes and open_bytes + size > 40:
            expected.append(position)
            open_bytes = 0
        open_bytes += size

    found = boundaries_of((sizes[at : at + chunk] for at in range(0, 100, chunk)), 40)

    assert found.tolist() == [*expected, 100]


def test_a_plan_is_the_same_wherever_it_is_made(source: Path, tmp_path: Path) -> None:
    """From a copy of the data in another place, in another order of calls: equal bytes."""
    shutil.copytree(source, tmp_path / "copy")
    for name, data in (("a", source), ("b", tmp_path / "copy"), ("a", tmp_path / "copy")):
        plan_of(data, tmp_path / name)
    stored = [
        {path.name: path.read_bytes() for path in (tmp_path / name / ".gpuaug-plan").iterdir()}
        for name in "ab"
    ]

    assert (stored[0], set(stored[0])) == (stored[1], {"plan.json", "boundaries"})
    loaded = load_plan(tmp_path / "a")
    assert loaded.identity == pickle.loads(pickle.dumps(plan_of(source, tmp_path / "a"))).identity


def test_another_plan_is_refused_with_the_difference(source: Path, tmp_path: Path) -> None:
    """One destination holds shards of one plan; the error says what to do about it where nothing was made."""
    plan = plan_of(source, tmp_path / "out")

    with pytest.raises(
        PrepareError,
        match=r"format was tar, is parquet.*no shard is there yet, .* \.gpuaug-plan may be rem",
    ):
        plan_of(source, tmp_path / "out", format="parquet")
    make_shard(plan, 0)
    with pytest.raises(PrepareError, match=r"or give a new folder$"):
        plan_of(source, tmp_path / "out", format="parquet")
    # Earlier versions had pack --tile, whose shards hold other bytes.
    stored = tmp_path / "out" / ".gpuaug-plan" / "plan.json"
    stored.write_text(stored.read_text().replace('"tile": false', '"tile": true'))
    with pytest.raises(PrepareError, match="tile was True, is False"):
        plan_of(source, tmp_path / "out")


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_every_executor_makes_the_same_bytes(
    source: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process, three tasks of an array in any order, and `pack` with two processes."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    executors = {
        "one": [LocalExecutor(1)],
        "array": [ArrayTask(number, 3, LocalExecutor(1)) for number in (2, 0, 1)],
    }
    for name, several in executors.items():
        for executor in several:
            plan = plan_of(source, tmp_path / name, format=kind)
            job = Job(partial(make_shard, plan), range(len(plan)), what="shard")
            assert all(entry["bytes"] for _, entry in executor.run(job))
        merge(load_plan(tmp_path / name))
    monkeypatch.setattr(packing, "_NUM_SAMPLES_FOR_PROCESSES", 1)
    pack(
        str(source),
        tmp_path / "pack",
        shard_size="30kB",
        shuffle=3,
        num_workers=2,
        format=kind,  # type: ignore[arg-type]
    )

    whole = files_of(tmp_path / "pack")
    assert len(whole) >= 3
    for name in executors:
        assert files_of(tmp_path / name) == whole


def test_a_new_column_late_in_a_shard(
    jpeg: Jpeg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Parquet shard has the columns of all its samples, also where its first row group does not."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("readers.prepare.parquet_shards._ROW_GROUP_BYTES", 1)
    (tmp_path / "data").mkdir()
    for number in range(4):
        (tmp_path / "data" / f"{number}.jpg").write_bytes(jpeg(20, 30, seed=number))
    (tmp_path / "data" / "2.json").write_text("{}")
    (tmp_path / "data" / "00.jpg").write_text("no image")
    plan = plan_shards(str(tmp_path / "data"), tmp_path / "out", format="parquet")
    make_shard(plan, 0)

    rows = parquet.read_table(tmp_path / "out" / "shard-000000.parquet").to_pylist()
    assert [row["json"] for row in rows] == [None, None, b"{}", None]
    assert [bad["key"] for bad in merge(plan).bad_samples] == ["00.jpg"]


def test_a_shard_of_bad_samples_has_an_entry_alone(jpeg: Jpeg, tmp_path: Path) -> None:
    """Nothing is written for it, it is done, and its samples are listed."""
    (tmp_path / "data").mkdir()
    for number in range(3):
        good = jpeg(20, 30) if number != 1 else b"no image"
        (tmp_path / "data" / f"{number}.jpg").write_bytes(good)
    packed = pack(str(tmp_path / "data"), tmp_path / "out", shard_size="1B")

    assert [shard.name for shard in shards_in(tmp_path / "out")] == [
        "shard-000000.tar",
        "shard-000002.tar",
    ]
    assert [bad["key"] for bad in packed.bad_samples] == ["1.jpg"]
    assert missing_shards(load_plan(tmp_path / "out")) == []
    assert len(open_dataset(tmp_path / "out")) == 2


def test_missing_shards_are_counted_and_no_dataset(source: Path, tmp_path: Path) -> None:
    """A merge says how many are missing and writes nothing; the folder is not opened as a dataset before."""
    plan = plan_of(source, tmp_path / "out")
    for number in range(1, len(plan) - 1):
        make_shard(plan, number)

    with pytest.raises(
        PrepareError,
        match=rf"2 of {len(plan)} shards are missing in .* \(number 0, {len(plan) - 1}\)",
    ):
        merge(plan)
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(SourceError, match="was not packed to its end"):
        open_dataset(tmp_path / "out")


def test_a_done_shard_is_left_alone(source: Path, tmp_path: Path) -> None:
    """An entry and a file of its size are enough."""
    plan = plan_of(source, tmp_path / "out")
    make_shard(plan, 0)
    shard = tmp_path / "out" / "shard-000000.tar"
    before = shard.stat().st_mtime_ns
    make_shard(plan, 0)

    assert shard.stat().st_mtime_ns == before


def test_shards_of_another_plan_are_refused(source: Path, tmp_path: Path) -> None:
    """Such as those of an array job with other settings that began at the same moment."""
    plan = plan_of(source, tmp_path / "out")
    make_shard(plan, 0)
    plan_shards(str(source), tmp_path / "other", bytes_per_shard=30_000)
    shutil.copytree(
        tmp_path / "other" / ".gpuaug-plan", tmp_path / "out" / ".gpuaug-plan", dirs_exist_ok=True
    )

    with pytest.raises(PrepareError, match="shards of another plan, such as shard-000000"):
        merge(load_plan(tmp_path / "out"))
    with pytest.raises(PrepareError, match="another plan of shards"):
        make_shard(plan, 1)


@pytest.mark.parametrize("change", ["is not the data of the plan", "cannot be opened"])
def test_data_that_changed_or_is_not_there_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Whoever opens it anew says on which machine, and what."""
    plan = plan_of(source, tmp_path / "out")
    monkeypatch.setattr("readers.prepare.source._opened", {})  # as in another process
    if change == "cannot be opened":
        shutil.rmtree(source)
    else:
        (source / "cats" / "0.jpg").unlink()

    with pytest.raises(PrepareError, match=f"{source} on {node()} {change}"):
        make_shard(pickle.loads(pickle.dumps(plan)), 0)
    assert not list(tmp_path.glob("out/*.tar"))


def test_credentials_stay_at_home() -> None:
    """A plan that is pickled or stored holds none of those that were given."""
    from readers.prepare.source import PlannedSource

    settings = (("aws_secret_access_key", "s3cret"), ("region", "eu-west-1"))
    found = PlannedSource("s3://bucket/train", "0" * 32, options={"settings": settings})

    copied = pickle.loads(pickle.dumps(found))
    assert b"s3cret" not in pickle.dumps(found)
    assert copied.options["settings"] == (("region", "eu-west-1"),)
    assert "s3cret" not in repr(found)


def test_streams_have_no_plan(source: Path, tmp_path: Path) -> None:
    """`plan_shards` refuses them by name, and makes nothing."""
    pack(str(source), tmp_path / "tar")
    [shard] = shards_in(tmp_path / "tar")

    with pytest.raises(
        PrepareError, match="can only be read forward, so its shards cannot be planned"
    ):
        plan_shards(str(shard), tmp_path / "out", source_format="stream")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_begun_without_a_plan_is_refused(source: Path, tmp_path: Path) -> None:
    """Without its plan a finished folder is taken as it is, and an unfinished one cannot be continued."""
    packed = pack(str(source), tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / ".gpuaug-plan")
    assert pack(str(source), tmp_path / "out") == packed
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_bytes())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest | {"complete": False}))

    with pytest.raises(PrepareError, match=r"holds a manifest\.json and no plan"):
        pack(str(source), tmp_path / "out")


def test_what_the_sizes_do_not_tell_is_estimated(source: Path, tmp_path: Path) -> None:
    """Parquet tells no sizes: a mean of samples stands for them, and the plan says so."""
    pytest.importorskip("pyarrow")
    pack(str(source), tmp_path / "parquet", format="parquet")
    told = plan_of(source, tmp_path / "a")
    estimated = plan_of(tmp_path / "parquet", tmp_path / "b")

    assert told.sizes["estimated"] == 0
    assert (estimated.sizes["estimated"], estimated.sizes["probe"]) == (24, 24)
    assert abs(len(estimated) - len(told)) <= 2


def test_the_command_as_an_array_job(run: Run, source: Path, tmp_path: Path) -> None:
    """Three tasks and a merge give what one command gives, and each says what remains."""
    options = ("--shard-size", "30kB", "--shuffle", 3, "--workers", 1)
    run("pack", source, tmp_path / "whole", *options)
    out = tmp_path / "out"
    early = ""
    for number in (1, 0, 2):
        code, printed, _ = run("pack", source, out, *options, "--task", f"{number}/3")
        assert code == 0
        early = early or refused(run, source, out, *options, "--merge")
    merged = run("pack", source, out, *options, "--merge")

    assert "none remain: give --merge" in printed
    assert "shards are missing in" in early
    assert "(number 0, 2" in early
    assert merged[0] == 0
    assert "24 samples in" in merged[1]
    assert content(out) == content(tmp_path / "whole")


def test_a_merge_is_of_the_data_and_settings_that_it_names(
    run: Run, source: Path, tmp_path: Path, jpeg: Jpeg
) -> None:
    """Other settings, data that changed and data that is not there are refused as they are without --merge."""
    out = tmp_path / "out"
    run("pack", source, out, "--shard-size", "30kB", "--workers", 1, "--task", "0/1")

    assert "shard_size_bytes was 30000" in refused(run, source, out, "--merge")
    assert "does not exist" in refused(run, tmp_path / "nowhere", out, "--merge")
    assert "holds no plan" in refused(run, source, tmp_path / "none", "--merge")
    assert not (tmp_path / "none").exists()
    (source / "cats" / "new.jpg").write_bytes(jpeg(20, 30))
    changed = refused(run, source, out, "--shard-size", "30kB", "--merge")
    assert "begun with other data (24 samples then, 25 now)" in changed
    assert not (out / "manifest.json").exists()
    (source / "cats" / "new.jpg").unlink()
    assert run("pack", source, out, "--shard-size", "30kB", "--merge")[0] == 0


def test_an_array_task_from_python_tells_of_its_own_shards(source: Path, tmp_path: Path) -> None:
    """Each counts what it made, lists nothing before the merge, and the merge has all of it."""
    parts = [
        pack(
            str(source),
            tmp_path / "out",
            shard_size="30kB",
            executor=ArrayTask(number, 2, LocalExecutor(1)),
        )
        for number in range(2)
    ]
    with pytest.raises(PrepareError, match=r"has no manifest\.json: merge it when all"):
        _ = parts[0].shards
    merged = pack(str(source), tmp_path / "out", shard_size="30kB", merge=True)

    assert all(part.num_shards for part in parts)
    assert sum(part.num_samples for part in parts) == merged.num_samples == 24
    assert sum(part.num_shards for part in parts) == len(merged.shards)


class Away:
    """A cluster that nobody reaches."""

    def run(self, job: Any) -> Any:
        """Fail."""
        del job
        raise PrepareError("the cluster cannot be reached")


def test_a_command_that_cannot_begin_keeps_no_plan(source: Path, tmp_path: Path) -> None:
    """The next one may have other settings."""
    out = tmp_path / "out"
    with pytest.raises(PrepareError, match="the cluster cannot be reached"):
        pack(str(source), out, executor=Away())
    assert not out.exists()

    assert pack(str(source), out, shard_size="30kB").num_samples == 24


@pytest.mark.parametrize("name", ["packing", "gpu-aug", "pyarrow"])
def test_a_plan_of_another_version_is_refused_by_who_makes_its_shards(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A worker gets it pickled, and names its machine."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.1.0")
    plan = plan_of(source, tmp_path / "out", format="parquet")
    other = replace(plan, versions={**plan.versions, name: "0.0.1"})

    with pytest.raises(PrepareError, match=rf"{node()} has {name} \S+ instead of 0\.0\.1, which"):
        make_shard(other, 0)
    assert not shards_in(tmp_path / "out")


def test_code_that_was_sent_has_no_version_to_compare(source: Path, tmp_path: Path) -> None:
    """Nor has a driver that was not installed; Ray compares their digests."""
    plan = plan_of(source, tmp_path / "out")
    planning.require_versions(replace(plan, versions={**plan.versions, "gpu-aug": "not installed"}))


PACK = """
from readers.prepare import pack

def run(source, out):
    return pack(source, out, shard_size="30kB", shuffle=3, num_workers=1).num_samples
"""


def test_two_processes_at_once_do_no_harm(source: Path, tmp_path: Path) -> None:
    """Two commands that pack the same into one folder both succeed, and the result is that of one."""
    pack(str(source), tmp_path / "whole", shard_size="30kB", shuffle=3)
    with forks(PACK) as processes:
        for _ in range(2):
            processes.start(source, tmp_path / "out")
        assert processes.answers() == [["24"]] * 2

    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_merge_sweeps_what_killed_writers_left(source: Path, tmp_path: Path) -> None:
    """Temporary files of more than a day go; those of writers at work stay."""
    pack(str(source), tmp_path / "out")
    old, new = (tmp_path / "out" / f".gpuaug-{name}.part" for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    merge(load_plan(tmp_path / "out"))

    assert (old.exists(), new.exists()) == (False, True)
