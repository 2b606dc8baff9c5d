"""The audit of a run: hashes that do not depend on ranks and batches, files that survive kill -9, and their comparison."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from dali_pipes import Execution, Loader, LoaderError, Monitoring
from dali_pipes.errors import StateMismatchError
from dali_pipes.runs.audit import sums
from dali_pipes.runs.audit_check import check_audit
from dali_pipes.runs.audit_compare import compare_audits
from dali_pipes.runs.audit_history import read_history
from gpu_aug import MixUp, RandomResizedCrop, Recipe
from readers import Order, mix
from tests.support.adapters import MemoryDataset
from tests.support.loaders import loader_maker

LENGTH = 61
RECIPE = Recipe([RandomResizedCrop(8)])
MASK = (1 << 64) - 1
BEGIN = '{"begin": [0, 0], "rank": 0, "world_size": 1, "time": 1.5, "seed": 3}\n'


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> MemoryDataset:
    return MemoryDataset([jpeg(12, 14, seed=number) for number in range(3)], LENGTH)


loader = loader_maker(RECIPE, batch_size=8, seed=3, last_batch="partial")


def world(dataset: MemoryDataset, size: int, **options: Any) -> list[Loader]:
    return [loader(dataset, rank=rank, world_size=size, **options) for rank in range(size)]


def advance(ranks: list[Loader], num_steps: int | None = None, loops: int = 1) -> None:
    """Let all ranks take some steps of each of the next loops, in turns."""
    for _ in range(loops):
        for batches in itertools.islice(zip(*ranks, strict=True), num_steps):
            del batches


def audited(dataset: Any, path: Path, **options: Any) -> str:
    """The audit of two epochs on one rank, without a break."""
    advance([loader(dataset, monitoring=Monitoring(audit=path), **options)], loops=2)
    return str(path)


def splitmix(value: int) -> int:
    """The hash of the audit, written once more for single numbers."""
    value = value * 0xBF58476D1CE4E5B9 & MASK
    value ^= value >> 32
    return value * 0x94D049BB133111EB & MASK


def expected_sums(epoch: int, positions: list[int], indices: list[int]) -> tuple[int, int]:
    golden = 0x9E3779B97F4A7C15
    key = splitmix(epoch + 1)
    key ^= key >> 32
    samples = sum(splitmix(index + golden & MASK) for index in indices) & MASK
    places = sum(
        splitmix((splitmix(position * golden + key & MASK) ^ index) + golden & MASK)
        for position, index in zip(positions, indices, strict=True)
    )
    return samples, places & MASK


class TestHashes:
    def test_golden(self) -> None:
        """The hashes are the same in every version: files of earlier runs are compared with later ones."""
        found = sums(2, np.array([0, 1, 10**12]), np.array([5, 0, 2**40]))

        assert found == expected_sums(2, [0, 1, 10**12], [5, 0, 2**40])
        assert [f"{value:016x}" for value in found] == ["8a48f6363ca00aeb", "81839c25bb624fda"]
        assert sums(0, np.arange(0), np.arange(0)) == (0, 0)

    @pytest.mark.parametrize(
        ("world_size", "options"),
        [
            *((world_size, {"batch_size": 2}) for world_size in (1, 2, 3, 4, 7, 8)),
            (3, {"batch_size": 5, "last_batch": "pad"}),
        ],
        ids=str,
    )
    def test_sums_of_all_ranks(
        self, dataset: MemoryDataset, world_size: int, options: dict[str, Any]
    ) -> None:
        """Over all ranks an epoch's sums are those of its order, on any number of ranks and with any batch."""
        ranks = world(dataset, world_size, **options)
        for epoch in range(2):
            advance(ranks)
            order = Order(LENGTH, seed=3).indices(epoch, np.arange(LENGTH))
            tallies = [rank.audit for rank in ranks]
            assert sum(tally.count for tally in tallies) == LENGTH
            samples, places = (
                sum(getattr(tally, name) for tally in tallies) for name in ("samples", "places")
            )
            assert (samples & MASK, places & MASK) == sums(epoch, np.arange(LENGTH), order)
        assert len({tally.rolling for tally in tallies}) == world_size

    def test_mixing_counts_own_rows_only(self, dataset: MemoryDataset) -> None:
        """What is worked on for a neighbour on another rank is not counted twice."""
        ranks = world(
            dataset, 3, batch_size=3, recipe=Recipe([RandomResizedCrop(8), MixUp(num_classes=7)])
        )
        advance(ranks)

        assert sum(rank.audit.count for rank in ranks) == LENGTH
        order = Order(LENGTH, seed=3).indices(0, np.arange(LENGTH))
        places = sum(rank.audit.places for rank in ranks) & MASK
        assert places == sums(0, np.arange(LENGTH), order)[1]

    def test_counts_what_was_handed_over(self, dataset: MemoryDataset) -> None:
        """Batches under way do not count, nor does a loop that another one has replaced."""
        ours = loader(dataset, execution=Execution(prefetch=5))
        assert ours.audit.steps == 0
        earlier = iter(ours)
        next(earlier)
        assert (ours.audit.steps, ours.audit.count) == (1, 8)
        next(earlier)
        next(iter(ours))
        before = ours.audit
        next(earlier)
        assert ours.audit == before

    def test_rolling_tells_the_order_of_steps(self, dataset: MemoryDataset) -> None:
        """Two runs of one seed have one rolling hash after every step; another seed has another."""
        runs = [loader(dataset), loader(dataset), loader(dataset, seed=4)]
        seen = [[run.audit.rolling for _ in run] for run in runs]

        assert seen[0] == seen[1]
        assert len({*seen[0], *seen[2]}) == 2 * len(seen[0])

    def test_bad_samples(self, jpeg: Callable[..., bytes]) -> None:
        """A skipped sample is not counted; for a replaced one its substitute is."""
        damaged = MemoryDataset([jpeg(12, 14)], LENGTH, bad=[4, 40])
        order = Order(LENGTH, seed=3).indices(0, np.arange(LENGTH))
        skipping = loader(damaged, on_bad_sample="skip")
        advance([skipping])
        kept = ~np.isin(order, [4, 40])
        replacing = loader(damaged, on_bad_sample="replace")
        got = np.concatenate([batch.indices.numpy() for batch in replacing])

        assert skipping.audit.count == LENGTH - 2
        assert skipping.audit.places == sums(0, np.flatnonzero(kept), order[kept])[1]
        assert replacing.audit.count == LENGTH
        assert replacing.audit.places == sums(0, np.arange(LENGTH), got)[1]
        assert (got != order).sum() == 2


class TestFile:
    def test_a_line_for_each_step(self, dataset: MemoryDataset, tmp_path: Path) -> None:
        """A line names step, rank and positions; the last one holds the rolling hash of the run."""
        ranks = world(
            dataset, 2, batch_size=16, monitoring=Monitoring(audit=tmp_path / "run-{rank}.jsonl")
        )
        advance(ranks)
        lines = [json.loads(line) for line in (tmp_path / "run-1.jsonl").read_text().splitlines()]

        assert (lines[0]["begin"], lines[0]["dataset"]) == ([0, 0], dataset.fingerprint)
        assert [(line["step"], line["start"], line["stop"]) for line in lines[1:]] == [
            (0, 16, 32),
            (1, 46, 61),
        ]
        assert {line["rank"] for line in lines} == {1}
        assert lines[-1]["rolling"] == f"{ranks[1].audit.rolling:016x}"
        assert sum(int(line["places"], 16) for line in lines[1:]) & MASK == ranks[1].audit.places
        assert max(map(len, (tmp_path / "run-1.jsonl").read_text().splitlines()[1:])) < 250

    def test_goes_on_after_a_torn_line(self, dataset: MemoryDataset, tmp_path: Path) -> None:
        """What a killed process left of a line is left out, and the next line begins anew."""
        path = tmp_path / "run.jsonl"
        first = loader(dataset, monitoring=Monitoring(audit=path))
        advance([first], 3)
        state = first.state_dict()
        path.write_bytes(path.read_bytes() + b'{"epoch": 0, "step": 3, "ra')
        second = loader(dataset, monitoring=Monitoring(audit=path))
        second.load_state_dict(state)
        advance([second])
        history = read_history(str(path))

        assert len(history.attempts) == 2
        assert [part.start for part in history.epochs[0]] == list(range(0, LENGTH, 8))


@pytest.fixture(scope="module")
def whole(dataset: MemoryDataset, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The audit of two epochs on one rank, without a break."""
    return audited(dataset, tmp_path_factory.mktemp("whole") / "whole.jsonl")


def verdict(first: str, second: str) -> tuple[bool, str]:
    found = compare_audits(first, second)
    return all(epoch.same for epoch in found.epochs), "\n".join(found.lines())


class TestComparison:
    @pytest.mark.parametrize("worlds", [(1,), (2,), (3, 1, 7), (8, 4, 2, 3), (2, 1, 2, 1)], ids=str)
    def test_resumed_on_other_ranks(
        self, dataset: MemoryDataset, tmp_path: Path, whole: str, worlds: tuple[int, ...]
    ) -> None:
        """Runs that lose steps behind their last state and come back on other ranks are the same run."""
        folder = tmp_path / "resumed"
        folder.mkdir()
        state, ranks = None, []
        for number, size in enumerate(worlds):
            ranks = world(
                dataset,
                size,
                batch_size=2,
                monitoring=Monitoring(audit=folder / "rank-{rank}.jsonl"),
            )
            for rank in ranks:
                if state:
                    rank.load_state_dict(state)
            if number < len(worlds) - 1:
                loops = [iter(rank) for rank in ranks]
                for loop in loops * 2:
                    next(loop)
                state = ranks[0].state_dict()
                for loop in loops * 2:  # two steps that are lost
                    next(loop)
                for loop in loops:
                    loop.close()  # type: ignore[attr-defined]
        advance(ranks, loops=2)
        same, text = verdict(whole, str(folder))

        assert same, text
        assert f"A: {whole}, epochs: 2, 16 lines of steps, ranks: 1, attempts: 1\n" in text
        assert "epoch 0: same, 61 positions" in text
        assert "same samples in the same order" in text
        assert ("were done again after a resume" in text) == (len(worlds) > 1)
        assert verdict(str(folder / "rank-*.jsonl"), whole)[0]

    def test_first_difference(self, dataset: MemoryDataset, tmp_path: Path, whole: str) -> None:
        """One swapped sample is found within its step, and that the samples as a whole are the same."""

        class Swapping(MemoryDataset):
            def fetch(self, indices: Any) -> list[Any]:
                twisted = [
                    {first: second, second: first}.get(int(index), index) for index in indices
                ]
                return super().fetch(twisted)

        order = Order(LENGTH, seed=3).indices(1, np.arange(LENGTH))
        first, second = int(order[21]), int(order[50])
        swapping = Swapping(dataset.pictures, LENGTH)
        for epoch, data in enumerate((dataset, swapping)):
            ranks = world(
                data, 2, batch_size=2, monitoring=Monitoring(audit=tmp_path / "s{rank}.jsonl")
            )
            for rank in ranks:
                rank.set_epoch(epoch)
            advance(ranks)
        same, text = verdict(whole, str(tmp_path / "s?.jsonl"))

        assert not same
        assert "epoch 0: same" in text
        assert "first within positions 16 to 23, step 2 of A (rank 0 of 1) and step 4 of B" in text
        assert "in 2 of 8 stretches" in text
        assert "epoch 1: but the same samples as a whole, in another order" in text
        assert text.endswith("NOT the same samples in the same order")

    def test_another_seed(self, dataset: MemoryDataset, tmp_path: Path, whole: str) -> None:
        """Runs of two seeds are told to have two seeds, and one multiset of samples in two orders."""
        same, text = verdict(whole, audited(dataset, tmp_path / "other.jsonl", seed=4))

        assert not same
        assert "another seed: 3 in A, 4 in B" in text
        assert text.count("the same samples as a whole, in another order") == 2

    def test_another_dataset(self, jpeg: Callable[..., bytes], tmp_path: Path, whole: str) -> None:
        """Equal indices of two datasets are not the same samples."""
        images = [jpeg(12, 14, seed=number) for number in (7, 8, 9)]
        other = audited(MemoryDataset(images, LENGTH, "another"), tmp_path / "other.jsonl")

        assert not compare_audits(whole, other).same
        assert "NOT the same" in verdict(whole, other)[1]

    def test_missing_and_doubled_positions(self, tmp_path: Path, whole: str) -> None:
        """Lost and repeated steps are named by their positions, as if a broken resume had made them."""
        path = tmp_path / "broken.jsonl"
        lines = Path(whole).read_text().splitlines()
        broken = [*lines[:4], *lines[5:7], lines[6], *lines[7:]]  # without step 3, step 5 twice
        path.write_text("\n".join(broken) + "\n")
        same, text = verdict(whole, str(path))

        assert not same
        assert "epoch 0: B lacks 8 positions: 24 to 31" in text
        assert "epoch 0: B has more than once 8 positions: 40 to 47" in text
        assert "epoch 0: same, 45 positions in 6 stretches" in text
        assert "epoch 1: same, 61 positions" in text

    def test_steps_that_end_elsewhere(self, dataset: MemoryDataset, tmp_path: Path) -> None:
        """Positions whose hashes stand in steps of other lengths are named, and so is what "drop" leaves out."""
        for name, size in (("a", 4), ("b", 6)):
            advance(
                [
                    loader(
                        dataset,
                        batch_size=size,
                        last_batch="drop",
                        monitoring=Monitoring(audit=tmp_path / name),
                    )
                ]
            )
        same, text = verdict(str(tmp_path / "b"), str(tmp_path / "a"))  # up to 60 both
        assert same, text
        short = loader(
            dataset, batch_size=7, last_batch="drop", monitoring=Monitoring(audit=tmp_path / "c")
        )
        advance([short])  # up to 56
        same, text = verdict(str(tmp_path / "b"), str(tmp_path / "c"))
        assert same, text
        assert 'lacks 4 positions: 56 to 59, which is what last_batch="drop" leaves out' in text
        assert text.endswith("same samples in the same order")
        advance([short], 3)
        same, text = verdict(str(tmp_path / "b"), str(tmp_path / "c"))

        assert not same
        assert "epoch 0: B lacks 4 positions: 56 to 59" in text
        assert "epoch 0: same, 42 positions in 1 stretches" in text
        assert "not compared, since steps end elsewhere: 14 positions: 42 to 55" in text
        assert "epoch 1: A lacks 21 positions: 0 to 20" in text
        assert text.count("drop") == 1  # the rest of an epoch that was left early is more

    def test_nothing_that_can_be_compared(self, dataset: MemoryDataset, tmp_path: Path) -> None:
        """Runs of which no steps end together are not called the same."""
        for name, size in (("a", 31), ("b", 32)):
            advance(
                [
                    loader(
                        dataset,
                        batch_size=size,
                        last_batch="drop",
                        monitoring=Monitoring(audit=tmp_path / name),
                    )
                ]
            )
        same, text = verdict(str(tmp_path / "a"), str(tmp_path / "b"))

        assert not same
        assert "not compared, since steps end elsewhere: 31 positions" in text

    def test_changed_samples(self, tmp_path: Path, whole: str) -> None:
        """A line whose hash of samples does not belong to its places is a difference."""
        lines = Path(whole).read_text().splitlines()
        line = json.loads(lines[3])
        lines[3] = json.dumps({**line, "samples": f"{int(line['samples'], 16) ^ 1:016x}"})
        (tmp_path / "changed.jsonl").write_text("\n".join(lines) + "\n")
        same, text = verdict(whole, str(tmp_path / "changed.jsonl"))

        assert not same
        assert "first within positions 16 to 23" in text

    def test_skipped_samples(self, jpeg: Callable[..., bytes], tmp_path: Path, whole: str) -> None:
        """A run that skipped a bad sample differs there, and it is told how many were skipped."""
        damaged = MemoryDataset([jpeg(12, 14)], LENGTH, bad=[4])
        skipped = audited(damaged, tmp_path / "skipped.jsonl", on_bad_sample="skip")
        same, text = verdict(whole, skipped)

        assert not same
        assert "B skipped 1 sample as bad" in text
        assert "in 1 of 8 stretches" in text

    def test_rank_that_died_before_the_others_went_back(
        self, dataset: MemoryDataset, tmp_path: Path, whole: str
    ) -> None:
        """Steps of a rank that never came back, behind the state of the others, do not count."""
        ranks = world(
            dataset, 2, batch_size=4, monitoring=Monitoring(audit=tmp_path / "r{rank}.jsonl")
        )
        loops = [iter(rank) for rank in ranks]
        for loop in loops * 2:
            next(loop)
        state = ranks[0].state_dict()
        for _ in range(3):
            next(loops[1])  # rank 0 is dead already
        alone = loader(dataset, monitoring=Monitoring(audit=tmp_path / "r{rank}.jsonl"))
        alone.load_state_dict(state)
        advance([alone], loops=2)
        same, text = verdict(whole, str(tmp_path / "r?.jsonl"))

        assert same, text
        assert "3 more were done again" in text

    def test_not_an_audit(self, tmp_path: Path) -> None:
        """A file of something else and a pattern without files are refused."""
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "loss.jsonl").write_text('{"loss": 3}\n[]\n')
        (tmp_path / "begun.jsonl").write_text(BEGIN)
        for name, words in {
            "other": "holds no audit; give what Monitoring",
            "begun.jsonl": r"begun.jsonl holds no step",
            "none-*.jsonl": "names no audit files",
        }.items():
            with pytest.raises(LoaderError, match=words):
                read_history(str(tmp_path / name))


@pytest.mark.parametrize(("seed", "code"), [(3, 0), (4, 1)])
def test_command(
    dataset: MemoryDataset,
    tmp_path: Path,
    whole: str,
    capsys: pytest.CaptureFixture[str],
    seed: int,
    code: int,
) -> None:
    """gpu-aug audit prints the report; its exit code says whether the runs are the same."""
    other = audited(dataset, tmp_path / "other.jsonl", batch_size=7, seed=seed)
    with pytest.raises(SystemExit) as end:
        main(["audit", whole, other])

    assert end.value.code == code
    assert ("NOT the same" in capsys.readouterr().out) == bool(code)
    assert compare_audits(whole, other).same == (code == 0)


class TestARunThatGoesOnInAnotherFile:
    """Two files of one run, the second from a state of the first, are checked as one run."""

    def _written(self, dataset: MemoryDataset, folder: Path) -> tuple[str, str]:
        names = str(folder / "a.jsonl"), str(folder / "b.jsonl")
        first = loader(dataset, monitoring=Monitoring(audit=names[0]))
        advance([first], 3)
        state = first.state_dict()
        second = loader(dataset, monitoring=Monitoring(audit=names[1]))
        second.load_state_dict(state)
        advance([second], loops=2)  # the rest of the epoch, and the next one
        return names

    @pytest.mark.parametrize("turned", [False, True])
    def test_the_whole_is_proved(
        self,
        dataset: MemoryDataset,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        turned: bool,
    ) -> None:
        """In either order of the arguments; the first one alone is no whole epoch."""
        names = self._written(dataset, tmp_path)
        with pytest.raises(SystemExit) as stopped:
            main(["audit", *(names[::-1] if turned else names)])
        assert stopped.value.code == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "one of them goes on from a state of the other" in printed
        assert f"epoch 0: {LENGTH} samples, each exactly once" in printed
        assert f"epoch 1: {LENGTH} samples, each exactly once" in printed
        assert printed.endswith(" each sample exactly once")

    def test_a_gap_is_seen(self, dataset: MemoryDataset, tmp_path: Path) -> None:
        """Lines that are lost between the two are missing from the whole."""
        names = self._written(dataset, tmp_path)
        lines = Path(names[1]).read_text().splitlines(keepends=True)
        Path(names[1]).write_text("".join(lines[:1] + lines[2:]))
        with pytest.raises(SystemExit) as stopped:
            main(["audit", *names])
        assert stopped.value.code == 1


SHORT_LENGTH = 48


GLOBAL_BATCH = 12


@pytest.fixture(scope="module")
def short_dataset(jpeg: Callable[..., bytes]) -> MemoryDataset:
    return MemoryDataset([jpeg(12, 14, seed=number) for number in range(3)], SHORT_LENGTH)


def start(
    short_dataset: MemoryDataset, world_size: int, audit: Path, state: Any = None
) -> list[Loader]:
    """Start a job on so many ranks, which go on from a state."""
    batch_size = GLOBAL_BATCH // world_size
    ranks = world(
        short_dataset, world_size, batch_size=batch_size, monitoring=Monitoring(audit=audit)
    )
    for rank in ranks:
        if state:
            rank.load_state_dict(state)
    return ranks


def take(ranks: list[Loader], steps: int) -> Any:
    """Let all ranks take so many steps of their next loop, and return the state."""
    for _, *_batches in zip(range(steps), *ranks, strict=False):
        pass
    return ranks[0].state_dict()


def turn_clocks_back(folder: Path) -> None:
    """Let what came later seem to have come earlier."""
    for path in folder.rglob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for number, line in enumerate(lines):
            if "time" in line:
                line["time"] = -number
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def killed_run(short_dataset: MemoryDataset, folder: Path, *, machines: bool) -> Path:
    """Three ranks end in the middle of an epoch, two that go on end as well, and one finishes.

    Both go on from the same state. With `machines` each attempt leaves its files on another machine.
    """

    def where(attempt: int) -> Path:
        path = folder / "run" / (f"machine-{attempt}" if machines else "")
        path.mkdir(parents=True, exist_ok=True)
        return path / "rank-{rank}.jsonl"

    first = start(short_dataset, 3, where(0))
    loops = [iter(rank) for rank in first]
    for loop in loops:
        next(loop)
    state = first[0].state_dict()
    for loop in [*loops, *loops]:
        next(loop)
    take(start(short_dataset, 2, where(1), state), 2)
    take(start(short_dataset, 1, where(2), state), 3)
    turn_clocks_back(folder / "run")
    if machines:  # as somebody collects them
        for path in sorted((folder / "run").glob("machine-*/*.jsonl")):
            path.rename(folder / "run" / f"{path.parent.name}-{path.name}")
    return folder / "run"


@pytest.mark.parametrize("machines", [False, True], ids=["shared folder", "folders of machines"])
def test_clocks_decide_nothing(
    short_dataset: MemoryDataset, tmp_path: Path, machines: bool
) -> None:
    """After two restarts from one state each sample counts once, though all clocks go backwards."""
    run = killed_run(short_dataset, tmp_path, machines=machines)
    check = check_audit(run)
    take(start(short_dataset, 1, tmp_path / "whole.jsonl"), 4)

    assert check.once, check.lines()
    assert len(check.history.attempts) == 3
    assert check.history.num_superseded == 3 * 2 + 2 * 2
    assert compare_audits(tmp_path / "whole.jsonl", run).same


def test_lines_without_names(short_dataset: MemoryDataset, tmp_path: Path) -> None:
    """Without names the order of a file says which attempt came later; here rank 0 took part in all of them."""
    run = killed_run(short_dataset, tmp_path, machines=False)
    for path in run.iterdir():
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line.pop("attempt", None), line.pop("after", None)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    assert check_audit(run).once
    assert len(check_audit(run).history.attempts) == 3


def test_an_attempt_without_steps(short_dataset: MemoryDataset, tmp_path: Path) -> None:
    """A start that was killed before its first step goes on from the longer of two runs, each in a file of its own."""
    take(start(short_dataset, 1, tmp_path / "a.jsonl"), 3)
    take(start(short_dataset, 1, tmp_path / "b.jsonl"), 4)
    begin = json.loads((tmp_path / "b.jsonl").read_text().splitlines()[0])
    killed = {**begin, "begin": [1, 0], "attempt": "1-00000000", "after": begin["attempt"]}
    (tmp_path / "c.jsonl").write_text(f"{json.dumps(killed)}\n")
    check = check_audit(tmp_path)

    assert check.once, check.lines()
    assert (check.history.num_steps, check.history.num_superseded) == (4, 3)


@pytest.mark.parametrize("planted", ["lost", "repeated", "other"])
def test_planted_steps_are_told(
    short_dataset: MemoryDataset, tmp_path: Path, planted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step that is lost, comes twice or holds other samples is named, and the command says no."""
    run = killed_run(short_dataset, tmp_path, machines=False)
    path = run / "rank-0.jsonl"
    lines = path.read_text().splitlines()
    assert check_audit(run).once
    changed = json.loads(lines[-2])
    changed["samples"] = f"{int(changed['samples'], 16) ^ 1:016x}"
    lines[-2:-1] = {
        "lost": [],
        "repeated": [lines[-2], lines[-2]],
        "other": [json.dumps(changed)],
    }[planted]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit, match="1"):
        main(["audit", str(run)])
    said = capsys.readouterr().out

    words = {"lost": "lacks 12 positions: 24 to 35", "repeated": "has more than once 12 positions"}
    assert words.get(planted, "each position came once, but not each sample") in " ".join(
        said.split()
    )
    assert "NOT each sample exactly once" in said


def test_a_run_that_is_not_over(
    short_dataset: MemoryDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has not come yet is not lost, but what is missing in front of it is."""
    take(start(short_dataset, 1, tmp_path / "run.jsonl"), 3)
    with pytest.raises(SystemExit, match="0"):
        main(["audit", str(tmp_path / "run.jsonl")])
    said = " ".join(capsys.readouterr().out.split())
    assert "36 positions, each exactly once, so far: the run ends within it" in said
    assert said.endswith("whether a sample came again shows in complete epochs only")


@pytest.mark.parametrize(
    ("options", "stop", "expected"),
    [
        ({"batch_size": 5}, 10, (True, "50 positions, each exactly once, so far")),
        ({"batch_size": 150, "last_batch": "drop"}, 1, (True, "150 positions, each exactly once")),
        ({"batch_size": 50}, 4, (False, "each position came once, but not each sample")),
    ],
    ids=["unfinished", "dropped", "complete"],
)
def test_repeats_of_a_mixture(
    jpeg: Callable[..., bytes], tmp_path: Path, options: Any, stop: int, expected: tuple[bool, str]
) -> None:
    """Samples of a mixture by weights come again: only positions are said to come once, also before its epoch is complete."""
    members = [MemoryDataset([jpeg(12, 14)], size) for size in (25, 10)]
    mixture = mix(members, weights=[0.1, 0.9], length=200)
    ours = loader(mixture, monitoring=Monitoring(audit=tmp_path / "run.jsonl"), **options)
    batches = list(itertools.islice(ours, stop))
    indices = [index for batch in batches for index in batch.indices.tolist()]
    check = check_audit(tmp_path / "run.jsonl")
    said = "\n".join(check.lines())

    assert len({*indices}) < len(indices)
    assert check.once == expected[0]
    assert expected[1] in said
    assert "samples, each exactly once" not in said
    assert not said.endswith("\neach sample exactly once")


def test_numbers_rise_with_each_state(short_dataset: MemoryDataset, tmp_path: Path) -> None:
    """A state names the attempt that saved it; all ranks that load it have the next number and one name."""
    audit = tmp_path / "rank-{rank}.jsonl"
    state = take(start(short_dataset, 2, audit), 1)
    second = start(short_dataset, 3, audit, state)
    assert {rank.state_dict()["attempt"] for rank in second} == {state["attempt"]}
    take(second, 1)
    names = {rank.state_dict()["attempt"] for rank in second}
    [name] = names

    assert (state["attempt"][:2], name[:2]) == ("0-", "1-")
    second[0].load_state_dict(state)
    take(second[:1], 1)
    assert second[0].state_dict()["attempt"].startswith("2-")


def test_states_of_earlier_versions(short_dataset: MemoryDataset, tmp_path: Path) -> None:
    """A state without an attempt loads, its lines go on from those in front of them; a damaged one is refused."""
    audit = tmp_path / "rank-{rank}.jsonl"
    state = dict(take(start(short_dataset, 2, audit), 2))
    del state["attempt"]
    again = start(short_dataset, 1, audit, state)
    take(again, 2)

    assert check_audit(tmp_path).once
    with pytest.raises(StateMismatchError, match=r"attempt='7', allowed are a number and 8 hex"):
        again[0].load_state_dict({**state, "attempt": "7"})
