"""A Loader on what can only be read forward: the same order every time, resume at any step, ranks, bad samples."""

import json
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webdataset

from dali_pipes import (
    BadSampleError,
    Batch,
    BlockShuffle,
    Buckets,
    Execution,
    Loader,
    LoaderError,
    Monitoring,
    MultiScale,
    StateMismatchError,
)
from dali_pipes.integrations.webdataset import from_webdataset
from dali_pipes.steps.streams.order import SHARD_BITS, UNKNOWN
from dali_pipes.steps.streams.steps import StreamSteps
from gpu_aug import MixUp, Normalize, RandomResizedCrop, Recipe, Resize, Schedule
from readers import SourceError, open_dataset
from tests.support.loaders import loader_maker
from tests.support.streams import write_shards

pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning"
)  # of webdataset's own


RECIPE = Recipe([RandomResizedCrop(8)])
SIZES = [7, 3, 9, 4, 6]  # 29 samples
EVEN = [4] * 12  # 48 samples


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compressed, so that nobody could read them at random."""
    return write_shards(tmp_path_factory.mktemp("uneven"), SIZES, "tar.gz")


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Twelve of one size."""
    return write_shards(tmp_path_factory.mktemp("even"), EVEN)


@pytest.fixture
def damaged(tmp_path: Path) -> list[str]:
    """Five shards, of which the second has a picture that is none, and the third is cut off."""
    paths = write_shards(tmp_path, SIZES)
    with tarfile.open(paths[1]) as archive:
        members = archive.getmembers()
        offset = members[2].offset_data
    data = bytearray(Path(paths[1]).read_bytes())
    data[offset : offset + 4] = b"none"
    Path(paths[1]).write_bytes(data)
    cut = Path(paths[2]).read_bytes()
    with tarfile.open(paths[2]) as archive:
        Path(paths[2]).write_bytes(cut[: archive.getmembers()[10].offset_data + 5])
    return paths


def load(paths: Any, **options: Any) -> Loader:
    """A loader with a small buffer; `samples_per_epoch` and `divide` are the stream's."""
    stream = {
        name: options.pop(name) for name in ("samples_per_epoch", "divide") if name in options
    }
    dataset = open_dataset(paths, format="stream", **stream) if isinstance(paths, list) else paths
    given = {"batch_size": 4, "device": "cpu", "shuffle": BlockShuffle(window=9), "seed": 5}
    return Loader(dataset, options.pop("recipe", RECIPE), **{"num_threads": 2, **given, **options})


def resumed(state: Any, paths: Any, **options: Any) -> Loader:
    """A loader that goes on from a state."""
    loader = load(paths, **options)
    loader.load_state_dict(state)
    return loader


def assert_equal(actual: Any, expected: list[Batch]) -> None:
    """The same labels and pixels in the same batches."""
    actual = list(actual)
    assert labels(actual) == labels(expected)
    assert all(torch.equal(a.images, b.images) for a, b in zip(actual, expected, strict=True))


def labels(batches: Any) -> list[list[int]]:
    return [batch.labels.tolist() for batch in batches]


def flat(batches: Any) -> list[int]:
    return [label for batch in batches for label in batch.labels.tolist()]


@pytest.mark.parametrize("shuffle", ["block", "none"])
def test_every_sample_once_in_each_epoch(shards: list[str], shuffle: str) -> None:
    """In another order in each epoch and under each seed, or in that of the shards; contents are those of the tars."""
    options = {"shuffle": shuffle} if shuffle == "none" else {}
    loader = load(shards, last_batch="partial", **options)
    epochs = [flat(loader), flat(loader)]
    other = flat(load(shards, last_batch="partial", seed=6, **options))

    assert [sorted(one) for one in epochs] == [list(range(29))] * 2
    assert (epochs[0] == list(range(29))) == (shuffle == "none")
    assert (len({tuple(one) for one in (*epochs, other)}) == 3) == (shuffle == "block")
    assert (other == epochs[0]) == (shuffle == "none")


def test_the_order_is_a_function_of_numbers(shards: list[str]) -> None:
    """Batch size, threads, prefetch and a helper process change neither samples nor pixels."""
    whole = list(load(shards, last_batch="partial"))
    pixels = torch.cat([batch.images for batch in whole])
    for options in (
        {"batch_size": 7},
        {"num_threads": 1, "execution": Execution(prefetch=1)},
        {"num_threads": 5, "execution": Execution(prefetch=6)},
    ):
        other = list(load(shards, last_batch="partial", **options))
        assert flat(other) == flat(whole)
        assert torch.equal(torch.cat([batch.images for batch in other]), pixels)


@pytest.mark.long
def test_a_helper_process(damaged: list[str]) -> None:
    """Makes the same batches, substitutes among them, for loop after loop, and goes on from a state."""
    options: dict[str, Any] = {"last_batch": "partial", "on_bad_sample": "replace"}
    mine = load(damaged, **options)
    expected = [labels(mine) for _ in range(3)]
    with load(damaged, execution=Execution(helper_process=True), **options) as loader:
        assert [labels(loader) for _ in range(2)] == expected[:2]
        state = loader.state_dict()
        loader.load_state_dict(state)
        assert labels(loader) == expected[2]


@pytest.mark.needs_dali
def test_dali(shards: list[str]) -> None:
    """Decodes the same samples, up to the end of the stream."""
    assert labels(load(shards, last_batch="partial", decoder="dali")) == labels(
        load(shards, last_batch="partial")
    )


@pytest.mark.parametrize("last_batch", ["drop", "partial"])
@pytest.mark.parametrize("samples_per_epoch", [None, 40])
def test_resume_at_any_step(
    shards: list[str], last_batch: str, samples_per_epoch: int | None
) -> None:
    """With other batch sizes, too: what was left comes, in its order, with its pixels, and then the next epoch."""
    options: dict[str, Any] = {"last_batch": last_batch, "samples_per_epoch": samples_per_epoch}
    straight = load(shards, **options)
    epochs = [list(straight), list(straight)]
    loader = load(shards, **options)
    states = [loader.state_dict(), *(loader.state_dict() for _ in loader)]
    for num_steps, state in enumerate(states):
        again = resumed(json.loads(json.dumps(state)), shards, **options)
        begun = again.epoch

        assert begun == 0 or num_steps == len(epochs[0])
        assert_equal(again, epochs[0][num_steps:] if begun == 0 else epochs[1])
    if last_batch == "partial":
        again = resumed(states[1], shards, batch_size=5, **options)
        assert flat(again) == flat(epochs[0])[4:]


def test_the_end_of_an_epoch(shards: list[str]) -> None:
    """A state that was taken after the loop begins the next epoch; one before its end the rest, which may be none."""
    loader = load(shards, last_batch="partial")
    list(loader)
    after = loader.state_dict()
    second = labels(loader)
    again = resumed(after, shards, last_batch="partial")

    assert (again.epoch, labels(again)) == (1, second)
    last = load(shards)
    *_, state = (last.state_dict() for _ in last)
    again = resumed(state, shards)
    assert ([len(labels(again)) for _ in range(2)], again.epoch) == ([0, 7], 1)


@pytest.mark.parametrize("divide", ["shards", "samples"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ranks(even: list[str], divide: str, world_size: int) -> None:
    """Together they have every sample once in each epoch, in as many steps."""
    options = {"world_size": world_size, "divide": divide, "samples_per_epoch": 48}
    loaders = [load(even, rank=rank, **options) for rank in range(world_size)]
    assert {len(loader) for loader in loaders} == {48 // (4 * world_size)}
    for _ in range(2):
        ranks = [labels(loader) for loader in loaders]
        assert len({tuple(map(len, batches)) for batches in ranks}) == 1
        assert sorted(label for rank in ranks for batch in rank for label in batch) == [*range(48)]


@pytest.mark.parametrize("last_batch", ["drop", "partial"])
def test_ranks_that_read_everything(shards: list[str], last_batch: str) -> None:
    """Share out the steps of one rank: the same samples and pixels for any number, without a known length."""
    one = load(shards, batch_size=12, last_batch=last_batch)
    whole = list(one)
    for world_size in (2, 3, 4):
        options = {"batch_size": 12 // world_size, "world_size": world_size, "divide": "samples"}
        ranks = [
            list(load(shards, rank=rank, last_batch=last_batch, **options))
            for rank in range(world_size)
        ]
        assert {len(batches) for batches in ranks} == {len(whole)}
        for step, batch in enumerate(whole):
            parts = [batches[step] for batches in ranks]
            assert torch.equal(torch.cat([part.images for part in parts]), batch.images)
            assert flat(parts) == batch.labels.tolist()


def test_resume_on_another_number_of_ranks(shards: list[str], even: list[str]) -> None:
    """Exact where samples are divided; refused with the reason where shards are."""
    options: dict[str, Any] = {"last_batch": "partial", "divide": "samples"}
    loader = load(shards, batch_size=6, **options)
    loop = iter(loader)
    next(loop)
    state, rest = loader.state_dict(), labels(loop)
    options |= {"batch_size": 3, "world_size": 2}
    parts = [labels(resumed(state, shards, rank=rank, **options)) for rank in range(2)]
    assert [a + b for a, b in zip(*parts, strict=True)] == rest

    state = load(even, rank=0, world_size=2, samples_per_epoch=48).state_dict()
    with pytest.raises(
        StateMismatchError, match=r"on 2 ranks and this run has 3: .*divide=\"samples\""
    ):
        resumed(state, even, rank=0, world_size=3, samples_per_epoch=48)


def test_a_state_of_another_rank(even: list[str]) -> None:
    """Rank 1 goes on exactly with the state that rank 0 saved, as torch.save on rank 0 alone makes it."""
    options = {"world_size": 2, "samples_per_epoch": 48}
    zero, one = (load(even, rank=rank, **options) for rank in range(2))
    loops = [iter(zero), iter(one)]
    for loop in loops:
        next(loop), next(loop)
    again = resumed(zero.state_dict(), even, rank=1, **options)

    assert labels(again) == labels(loops[1])


def test_uneven_ranks(shards: list[str]) -> None:
    """A rank that is through begins again with other draws; the steps are as many on all."""
    loaders = [load(shards, rank=rank, world_size=2, samples_per_epoch=32) for rank in range(2)]
    ranks = [list(loader) for loader in loaders]

    assert [len(one) for one in ranks] == [4, 4]
    own = [set(flat(one)) for one in ranks]
    assert not own[0] & own[1]
    assert min(len(one) for one in own) < 16
    [again] = [one for one in ranks if len(set(flat(one))) < 16]
    images = torch.cat([batch.images for batch in again])
    repeated = [label for label, times in Counter(flat(again)).items() if times == 2]
    for label in repeated:
        first, second = (np.array(flat(again)) == label).nonzero()[0]
        assert not torch.equal(images[first], images[second])


def test_indices_are_those_that_are_promised(shards: list[str]) -> None:
    """Shard and number in the shard, by which draws are made: the same whatever stands before it."""
    options = {"last_batch": "partial"}
    shuffled, plain = (
        {
            label: (index, image)
            for batch in load(shards, **options, **order)
            for label, index, image in zip(
                batch.labels.tolist(), batch.indices.tolist(), batch.images, strict=True
            )
        }
        for order in ({}, {"shuffle": "none"})
    )
    expected = [
        (shard << SHARD_BITS) + number for shard, size in enumerate(SIZES) for number in range(size)
    ]

    assert [shuffled[label][0] for label in range(29)] == expected
    assert shuffled.keys() == plain.keys()
    assert all(torch.equal(plain[label][1], image) for label, (_, image) in shuffled.items())


def test_peek_does_not_disturb(shards: list[str]) -> None:
    """Neither before a loop nor within one."""
    whole = labels(load(shards))
    loader = load(shards)

    assert loader.peek().labels.tolist() == whole[0]
    loop = iter(loader)
    first = next(loop).labels.tolist()
    loader.peek()
    assert [first, *labels(loop)] == whole


def test_mixing_and_evaluation(shards: list[str]) -> None:
    """Neighbours are mixed where the batch allows it; an evaluation has every sample once, in order."""
    mixing = Recipe([Resize((8, 8)), MixUp(num_classes=29, p=1.0), Normalize()])
    mixed = next(iter(load(shards, recipe=mixing))).labels

    assert (mixed.shape, int((mixed > 0).sum(1).max())) == ((4, 29), 2)
    assert torch.allclose(mixed.sum(1), torch.ones(4))
    test = Loader.eval(
        open_dataset(shards, format="stream"), Recipe([Resize((8, 8))]), batch_size=8, device="cpu"
    )
    assert flat(test) == list(range(29))
    for recipe, batch_size, says in (
        (mixing, 5, "batch_size=5 is not a multiple of 2"),
        (Recipe([Resize((8, 8)), MixUp(p=1.0)]), 4, r"MixUp\(num_classes=1000\)"),
    ):
        with pytest.raises(LoaderError, match=says):
            load(shards, recipe=recipe, batch_size=batch_size)


def test_bad_samples(damaged: list[str], tmp_path: Path) -> None:
    """Raised, skipped, or replaced by another sample of the step; written down; the others are untouched."""
    good = [*range(8), 9, *range(10, 15), *range(19, 29)]
    with pytest.raises(BadSampleError, match=r"shard-0[12]\.tar"):
        list(load(damaged))
    skipping = load(
        damaged,
        on_bad_sample="skip",
        last_batch="partial",
        monitoring=Monitoring(ledger=tmp_path / "bad.jsonl"),
    )
    assert sorted(flat(skipping)) == good
    lines = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert {line["key"] for line in lines} == {"shard-01.tar/001", "shard-02.tar/005"}
    assert any("cut off" in line["reason"] for line in lines)
    replacing = load(damaged, on_bad_sample="replace", last_batch="partial")
    batches = list(replacing)
    assert (sum(map(len, batches)), set(flat(batches))) == (26, set(good))
    again = load(damaged, on_bad_sample="replace", last_batch="partial", num_threads=5)
    assert_equal(again, batches)


def test_damage_that_is_found_while_decoding(tmp_path: Path) -> None:
    """Is replaced by the same sample whatever the number of threads."""
    paths = write_shards(tmp_path, SIZES, cut=12)
    runs = [
        load(paths, on_bad_sample="replace", last_batch="partial", num_threads=number)
        for number in (1, 5)
    ]
    found = [list(one) for one in runs]

    assert {record.stage for record in runs[0].bad_samples} == {"decode"}
    assert flat(found[0]) == flat(found[1])
    assert 12 not in flat(found[0])


def test_the_length(shards: list[str]) -> None:
    """Unknown unless it was said; `list` works all the same."""
    with pytest.raises(TypeError, match=r"at the end of the stream only; .*samples_per_epoch"):
        len(load(shards))
    assert len(load(shards, samples_per_epoch=30)) == len(list(load(shards))) == 7


def test_what_explain_says(shards: list[str], even: list[str]) -> None:
    """What is promised, for one rank and for both ways of dividing."""
    second = {"rank": 1, "world_size": 2}
    for loader, words in (
        (load(shards), ["an epoch ends with the stream", "each sample once"]),
        (
            load(even, samples_per_epoch=48, **second),
            ["6 steps of an epoch of 48 samples", "begins its shards again"],
        ),
        (load(even, divide="samples", **second), ["any number of ranks"]),
    ):
        said = loader.explain()
        assert [word for word in words if word not in said] == []
    assert "TarStream(5 tars)" in repr(load(shards))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shuffle": "global"}, r'"global" needs random access.*"block".*"none"'),
        ({"last_batch": "pad"}, "a stream cannot read again"),
        (
            {"world_size": 2, "rank": 0},
            r'unequal numbers of steps: .*samples_per_epoch=.*divide="samples"',
        ),
        (
            {"world_size": 6, "rank": 0, "samples_per_epoch": 24},
            "5 shards cannot be divided among 6 ranks",
        ),
        ({"samples_per_epoch": 3}, "no full batch: samples_per_epoch=3"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_is_refused(shards: list[str], options: dict[str, Any], message: str) -> None:
    """With what would work."""
    with pytest.raises(LoaderError, match=message):
        load(shards, **options)


def test_recipes_by_epoch(shards: list[str]) -> None:
    """A schedule of recipes; sizes by position and buckets by shape need random access."""
    plan = Schedule({0: Recipe([RandomResizedCrop(8)]), 1: Recipe([RandomResizedCrop(12)])})
    loader = load(shards, recipe=plan)
    order = labels(load(shards))

    assert [{tuple(batch.images.shape[2:]) for batch in loader} for _ in range(3)] == [
        {(8, 8)},
        {(12, 12)},
        {(12, 12)},
    ]
    assert labels(load(shards, recipe=plan)) == order
    by_size = {"recipe": lambda size: Recipe([RandomResizedCrop(size)])}
    for options in (
        {"sizes": MultiScale([(8, 8), (12, 12)], every=8)},
        {"buckets": Buckets([(8, 8)])},
    ):
        with pytest.raises(
            LoaderError, match="buckets= and sizes= need samples that can be read at random"
        ):
            load(shards, **by_size, **options)


def test_other_refusals(shards: list[str]) -> None:
    """Arguments of the stream, clips of it, and evaluation with a number of samples."""
    for options, says in (
        ({"samples_per_epoch": 0}, "samples_per_epoch=0 is not allowed"),
        ({"divide": "ranks"}, 'give "shards" or "samples"'),
    ):
        with pytest.raises(SourceError, match=says):
            load(shards, **options)
    stream = open_dataset(shards, format="stream", samples_per_epoch=20)
    with pytest.raises(LoaderError, match=r"Loader\.eval takes each sample once; leave it out"):
        Loader.eval(stream, RECIPE, batch_size=2)
    state = load(shards).state_dict()
    with pytest.raises(StateMismatchError, match="shuffle is"):
        resumed(state, shards, shuffle="none")
    damaged = {**state, "stream": {**state["stream"], "mark": [1, 2]}}
    with pytest.raises(StateMismatchError, match="mark of the stream is damaged"):
        resumed(damaged, shards)


def test_what_a_helper_process_is_sent(shards: list[str]) -> None:
    """Plans without the samples that they keep; a fetcher that opens the stream itself, for one loop at a time."""
    fetcher = load(shards, on_bad_sample="replace")._setup.fetcher
    steps = StreamSteps(UNKNOWN, 4, 0, 1, "drop", fetcher.variants, "shards")
    plan = fetcher.fetch(next(steps.plans(0))).plan
    sent, other = pickle.loads(pickle.dumps((plan, fetcher)))

    assert len(plan.reserve) > 4  # those near it, too
    assert (sent.reserve, sent.mark) == ((), plan.mark)
    found = [one.fetch(next(steps.plans(0))).indices.tolist() for one in (other, other, fetcher)]
    assert found[0] == found[1] == found[2]
    assert len(other.readers._loops) == 1


def test_a_state_that_was_moved(shards: list[str]) -> None:
    """To the beginning of another epoch, by hand or by set_epoch: nothing of the old place is used."""
    straight = load(shards)
    epochs = [labels(straight), labels(straight)]
    for whole in (False, True):
        loader = load(shards)
        loop = iter(loader)
        next(loop), next(loop)
        if whole:
            list(loop)
        again = resumed({**loader.state_dict(), "epoch": 1, "consumed": 0}, shards)
        assert (again.epoch, labels(again)) == (1, epochs[1])
    again.set_epoch(0)
    assert labels(again) == epochs[0]


def test_files_are_closed(shards: list[str], tmp_path: Path) -> None:
    """When a loop is left, and when it ends."""
    # Copies, because loops of other tests may still be closing the shards themselves.
    shards = [shutil.copy(shard, tmp_path) for shard in shards]

    def num_open() -> int:
        return sum(
            one.resolve().is_relative_to(tmp_path)
            for one in Path("/proc/self/fd").iterdir()
            if one.exists()
        )

    loader = load(shards, execution=Execution(prefetch=1))  # not all of them are read ahead
    loop = iter(loader)
    next(loop), next(loop)
    until = time.monotonic() + 10
    while num_open() != 1 and time.monotonic() < until:  # a thread still reads the next step
        time.sleep(0.01)
    assert num_open() == 1
    loop.close()  # type: ignore[attr-defined]
    list(loader)
    list(load(shards, samples_per_epoch=8))
    assert num_open() == 0


def test_webdataset_reads_the_same(even: list[str]) -> None:
    """Its own reader is the reference of contents; as a stream of ours it gives its own order."""
    pipeline = webdataset.WebDataset(even, shardshuffle=False)
    theirs = list(pipeline)
    ours, adapted = (
        list(load(data, shuffle="none", recipe=Recipe([Resize((16, 16))])))
        for data in (even, from_webdataset(pipeline))
    )

    assert flat(ours) == [int(item["cls"]) for item in theirs]
    assert_equal(adapted, ours)
    assert adapted[0].keys == ours[0].keys


@pytest.mark.parametrize("shuffle", ["none", "block"])
def test_webdataset_resumes(even: list[str], shuffle: str) -> None:
    """By going through it again; with its own shuffle seeded, in a later epoch, too."""

    def make() -> Loader:
        pipeline = webdataset.WebDataset(even, shardshuffle=100, detshuffle=True, seed=3)
        options = {"shuffle": shuffle} if shuffle == "none" else {}
        return load(from_webdataset(pipeline), **options)

    straight = make()
    epochs = [labels(straight) for _ in range(2)]
    loader = make()
    list(loader)
    loop = iter(loader)
    next(loop)
    again = make()
    again.load_state_dict(loader.state_dict())

    assert labels(again) == epochs[1][1:]
    assert sorted(label for batch in epochs[0] for label in batch) == list(range(48))
    assert epochs[0] != epochs[1]


def test_webdataset_that_cannot_be_repeated(even: list[str]) -> None:
    """A shuffle without a seed is noticed, not resumed wrongly."""

    def make(seed: int) -> Loader:
        pipeline = webdataset.WebDataset(even, shardshuffle=False).shuffle(
            20, initial=20, seed=seed
        )
        return load(from_webdataset(pipeline), shuffle="none")

    loader = make(1)
    next(iter(loader))
    again = make(2)
    again.load_state_dict(loader.state_dict())
    with pytest.raises(LoaderError, match="other samples than when the state was taken"):
        list(again)


def test_webdataset_items(even: list[str]) -> None:
    """Decoded items and pairs are taken; ranks need a number of samples; what is no pipeline is refused."""
    plain = webdataset.WebDataset(even, shardshuffle=False)
    for pipeline in (
        plain.decode("pil"),
        plain.decode("rgb8"),
        plain.decode("pil").to_tuple("jpg", "cls"),
    ):
        assert flat(load(from_webdataset(pipeline), shuffle="none")) == list(range(48))
    with pytest.raises(LoaderError, match="samples_per_epoch"):
        load(from_webdataset(plain), world_size=2, rank=0)
    for given, says in (
        ([1, 2], "is no pipeline of webdataset"),
        (webdataset.DataPipeline(lambda: iter(())), "give a fingerprint="),
    ):
        with pytest.raises(LoaderError, match=says):
            from_webdataset(given)


@pytest.mark.long
def test_a_run_that_is_killed(tmp_path: Path) -> None:
    """By SIGKILL after five steps, and again in its second epoch: it goes on as one that was not."""
    for name in ("killed", "straight"):
        (tmp_path / name).mkdir()
        write_shards(tmp_path / name, SIZES, "tar.gz")

    def run(name: str, kill_after: int) -> int:
        command = [
            sys.executable,
            "-m",
            "tests.support.streams",
            str(tmp_path / name),
            str(kill_after),
        ]
        return subprocess.run(command, check=False, timeout=120).returncode

    assert run("straight", 0) == 0
    assert [run("killed", 5), run("killed", 4), run("killed", 0)] == [
        -signal.SIGKILL,
        -signal.SIGKILL,
        0,
    ]
    killed, straight = (
        (tmp_path / name / "log.jsonl").read_text() for name in ("killed", "straight")
    )
    assert (killed, len(killed.splitlines())) == (straight, 16)


NUM_SAMPLES = 12
BAD = (0, 5, 6, 11)  # the first, two in a row, the last


@pytest.fixture
def mended(tmp_path: Path) -> list[str]:
    """Three shards of four, some of whose pictures are none."""
    paths = write_shards(tmp_path, [4, 4, 4])
    for label in BAD:
        shard = Path(paths[label // 4])
        data = bytearray(shard.read_bytes())
        [start] = [
            at + 512
            for at in range(0, len(data), 512)
            if data[at : at + 8] == b"%03d.jpg\0" % (label % 4)
        ]
        data[start : start + 4] = b"none"
        shard.write_bytes(data)
    return paths


make_replacing = loader_maker(
    Recipe([Resize((8, 8))]),
    batch_size=1,
    num_threads=2,
    shuffle="none",
    last_batch="partial",
    on_bad_sample="replace",
)


def load_replacing(paths: list[str], length: int | None = None, **options: Any) -> Loader:
    return make_replacing(open_dataset(paths, format="stream", samples_per_epoch=length), **options)


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("shuffle", [{}, {"shuffle": BlockShuffle(window=5)}])
@pytest.mark.parametrize("length", [None, 20])
def test_each_bad_sample_is_replaced(
    mended: list[str], batch_size: int, shuffle: dict[str, Any], length: int | None
) -> None:
    """Also at the beginning and at the end of the stream, by the same sample whatever the number of threads."""
    options = {"batch_size": batch_size, "length": length, **shuffle}
    batches = list(load_replacing(mended, **options))
    other = list(load_replacing(mended, **options, num_threads=5))

    assert sum(map(len, batches)) == (length or NUM_SAMPLES)
    assert not {int(label) for batch in batches for label in batch.labels}.intersection(BAD)
    assert all(torch.equal(a.images, b.images) for a, b in zip(batches, other, strict=True))


@pytest.mark.parametrize("shuffle", [{}, {"shuffle": BlockShuffle(window=5)}])
@pytest.mark.parametrize("length", [None, 20])
def test_a_resumed_run_draws_the_same(
    mended: list[str], shuffle: dict[str, Any], length: int | None
) -> None:
    first = load_replacing(mended, length=length, **shuffle)
    whole, states = zip(*((int(one.labels), first.state_dict()) for one in first), strict=True)
    for stop, state in enumerate(states[:-1], 1):
        second = load_replacing(mended, length=length, **shuffle)
        second.load_state_dict(state)

        assert [int(batch.labels) for batch in second] == list(whole[stop:])


def test_an_error_says_what_limits_substitutes(tmp_path: Path) -> None:
    [path] = write_shards(tmp_path, [1])
    data = bytearray(Path(path).read_bytes())
    data[512:516] = b"none"
    Path(path).write_bytes(data)

    with pytest.raises(BadSampleError, match=r"\(tried: 0; a stream has only those near it\)"):
        list(load_replacing([path]))
