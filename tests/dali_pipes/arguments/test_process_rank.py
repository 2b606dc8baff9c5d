"""Which rank a loader serves is settled by its first use, and is not changed behind anybody's back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

from dali_pipes import Loader, LoaderError, Monitoring
from dali_pipes.arguments.choose import choose
from dali_pipes.integrations.dali import DALIClassificationIterator
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset
from tests.support.loaders import loader_maker
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8)])
NUM_IMAGES = 21


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    """21 small pictures."""
    return make_small(jpeg, NUM_IMAGES)


@pytest.fixture(autouse=True)
def _nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a process group, or the environment, say something."""

    def set_place(rank: int, world_size: int, *, group: bool) -> None:
        if group:
            monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
            monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
            monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world_size)
        else:
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", str(world_size))

    return set_place


load = loader_maker(RECIPE, last_batch="partial")


def place(loader: Loader) -> tuple[int, int]:
    return loader.steps.rank, loader.steps.world_size


FIRST_USES: dict[str, Callable[[Loader], object]] = {
    "len": len,
    "loop": iter,
    "state": Loader.state_dict,
    "steps": lambda loader: loader.steps,
    "load": lambda loader: loader.load_state_dict({**loader.state_dict()}),
}
LOOKS: list[Callable[[Loader], object]] = [Loader.explain, Loader.peek]


@pytest.mark.parametrize("use", FIRST_USES)
@pytest.mark.parametrize("group", [True, False], ids=["group", "environment"])
class TestFirstUse:
    def test_settles_it(
        self, dataset: Dataset, say: Callable[..., None], use: str, group: bool
    ) -> None:
        """What is said when a loader is first used holds, and not what was said when it was made."""
        loader = load(dataset)
        say(1, 3, group=group)
        FIRST_USES[use](loader)

        assert place(loader) == (1, 3)
        assert len(loader) == 2  # of 12 samples

    def test_is_not_contradicted(
        self, dataset: Dataset, say: Callable[..., None], use: str, group: bool
    ) -> None:
        """Who used it as one process alone is told, in words, once there are more."""
        loader = load(dataset)
        FIRST_USES[use](loader)
        say(0, 2, group=group)

        for again in [*FIRST_USES.values(), *LOOKS]:
            with pytest.raises(
                LoaderError, match=r"was used as rank 0 of 1 \(by default\), but now"
            ):
                again(loader)


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_settles_nothing(
    dataset: Dataset, say: Callable[..., None], look: Callable[[Loader], object]
) -> None:
    """Who looks at a loader before there is a group may use it afterwards, and sees what its rank will have."""
    loader = load(dataset, shuffle="none")
    assert "rank 0 of 1" in loader.explain()
    look(loader)
    say(1, 3, group=True)

    assert "rank 1 of 3" in loader.explain()
    peeked = loader.peek().indices.tolist()
    assert (place(loader), next(iter(loader)).indices.tolist()) == ((1, 3), peeked)


def test_the_environment_is_contradicted_by_a_group(
    dataset: Dataset, say: Callable[..., None]
) -> None:
    """The same place from both is no contradiction, another one is."""
    loader = load(dataset)
    say(1, 2, group=False)
    assert len(loader) == 3
    say(1, 2, group=True)
    assert len(loader) == 3
    say(0, 2, group=True)
    with pytest.raises(LoaderError, match=r"used as rank 1 of 2 \(by RANK and WORLD_SIZE\)"):
        len(loader)


def test_a_group_comes_first_and_may_end(
    dataset: Dataset, say: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group counts more than the environment, and after it was destroyed the state can still be saved."""
    say(0, 4, group=False)
    say(2, 3, group=True)
    loader = load(dataset)
    assert place(loader) == (2, 3)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    assert (loader.state_dict()["consumed"], place(loader)) == (0, (2, 3))


@pytest.mark.parametrize(
    ("rank", "world_size", "said"),
    [
        (None, "4", "RANK is not set and WORLD_SIZE is '4'"),
        ("2", None, "RANK is '2' and WORLD_SIZE is not set"),
        ("one", "4", "RANK is 'one' and WORLD_SIZE is '4' in the environment.* both are integers"),
        ("4", "4", "RANK is '4' and .*, and ranks count from 0"),
    ],
)
def test_half_of_a_place(
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    say: Callable[..., None],
    rank: str | None,
    world_size: str | None,
    said: str,
) -> None:
    """An environment that does not say which part is whose is refused by the first use, unless a group says it."""
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            monkeypatch.setenv(name, value)
    loader = load(dataset)
    with pytest.raises(LoaderError, match=said):
        len(loader)
    say(1, 2, group=True)
    assert place(loader) == (1, 2)


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "1"), ("RANK", "0")])
def test_one_process_alone(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """What a launcher of one process leaves behind is no contradiction."""
    loader = load(dataset)
    assert place(loader) == (0, 1)
    monkeypatch.setenv(name, value)
    assert place(loader) == (0, 1)


class TestGiven:
    @pytest.mark.parametrize("group", [True, False])
    def test_holds(self, dataset: Dataset, say: Callable[..., None], group: bool) -> None:
        """Fewer shares than processes, as for a model over two GPUs, are taken as given."""
        say(5, 8, group=group)
        loader = load(dataset, rank=2, world_size=4)

        assert place(loader) == (2, 4)
        assert "rank 2 of 4" in loader.explain()

    @pytest.mark.parametrize("world_size", [3, 16])
    def test_warns_where_shares_cannot_be_even(
        self, dataset: Dataset, say: Callable[..., None], world_size: int
    ) -> None:
        """Samples that nobody sees, or some see twice, are told once."""
        say(0, 8, group=True)
        loader = load(dataset, rank=0, world_size=world_size, batch_size=1)
        with pytest.warns(UserWarning, match=f"{world_size} shares do not go evenly to 8"):
            len(loader)
        assert len(loader) == -(-NUM_IMAGES // world_size)

    @pytest.mark.parametrize("rank", [True, "0", 0.0])
    def test_whole_numbers_only(self, dataset: Dataset, rank: Any) -> None:
        """A text from the environment is not taken for a number."""
        with pytest.raises(LoaderError, match=r"rank=.* is not allowed; give an integer"):
            load(dataset, rank=rank, world_size=2)


def test_what_cannot_work_is_said_at_once(
    dataset: Dataset, say: Callable[..., None], tmp_path: Path
) -> None:
    """Where the place is known already, no loop is needed to learn that ranks would share an audit."""
    loader = load(dataset, monitoring=Monitoring(audit=tmp_path / "run.jsonl"))
    say(0, 2, group=True)
    with pytest.raises(LoaderError, match="would be one file for 2 ranks"):
        iter(loader)
    with pytest.raises(LoaderError, match="would be one file for 2 ranks"):
        load(dataset, monitoring=Monitoring(audit=tmp_path / "run.jsonl"))
    with pytest.raises(LoaderError, match="no full batch: 21 samples, batch_size=11, world_size=2"):
        load(dataset, batch_size=11, last_batch="drop")


def test_files_are_those_of_the_rank(
    dataset: Dataset, say: Callable[..., None], tmp_path: Path
) -> None:
    """The rank in the names of audit and ledger, and in their lines, is the one that was settled."""
    bad = make_bad(dataset)
    audit, ledger = tmp_path / "audit-{rank}.jsonl", tmp_path / "bad-{rank}.jsonl"
    loader = load(
        bad, monitoring=Monitoring(audit=audit, ledger=ledger), on_bad_sample="skip", shuffle="none"
    )
    say(1, 2, group=True)
    list(loader)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit-1.jsonl", "bad-1.jsonl"]
    lines = [json.loads(line) for line in (tmp_path / "audit-1.jsonl").read_text().splitlines()]
    assert {(line["rank"], line["world_size"]) for line in lines} == {(1, 2)}
    [line] = [json.loads(line) for line in (tmp_path / "bad-1.jsonl").read_text().splitlines()]
    assert (line["index"], line["rank"]) == (5, 1)


@pytest.mark.parametrize("name", ["audit", "ledger"])
def test_folders_are_those_of_the_rank(
    dataset: Dataset, say: Callable[..., None], tmp_path: Path, name: str
) -> None:
    """A rank makes its own folder, and not that of rank 0."""
    say(1, 2, group=True)
    files: dict[str, Any] = {name: tmp_path / "{rank}" / "run.jsonl"}
    load(dataset, monitoring=Monitoring(**files))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name in "01"] == [
        "1"
    ]


def test_an_iterator_that_was_made_before(dataset: Dataset, say: Callable[..., None]) -> None:
    """A DALI-shaped iterator makes its first batch at once, and refuses to hand it over to two ranks."""
    iterator = DALIClassificationIterator(load(dataset))
    say(1, 2, group=True)
    uses: list[Callable[[Any], object]] = [len, iter, next]
    for use in uses:
        with pytest.raises(LoaderError, match="the ranks would not share the epoch"):
            use(iterator)


def make_bad(dataset: Dataset) -> Dataset:
    """The same, but the sample 5 cannot be read."""
    other = make_small(lambda *_a, **_k: b"", 0)
    other.images, other.labels = list(dataset.images), list(dataset.labels)  # type: ignore[attr-defined]
    other.images[5] = b""
    return other


@pytest.mark.parametrize(
    ("current", "local", "chosen"),
    [(0, None, 0), (0, "2", 2), (1, "2", 1), (0, "7", 0), (0, "here", 0)],
)
@pytest.mark.parametrize("asked", ["auto", "cuda"])
def test_devices_of_torchrun(
    monkeypatch: pytest.MonkeyPatch, asked: str, current: int, local: str | None, chosen: int
) -> None:
    """Made before torch.cuda.set_device, each local rank has the GPU of its number, where there is such a one."""
    answers = {"is_available": True, "current_device": current, "device_count": 4}
    for name, answer in {**answers, "get_device_name": "a GPU"}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if local is not None:
        monkeypatch.setenv("LOCAL_RANK", local)
    assert choose(asked, "cpu", "kornia").device == torch.device("cuda", chosen)
