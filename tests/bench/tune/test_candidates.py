"""Which settings are worth a trial."""

from dataclasses import replace

import pytest

from bench.tune.candidates import Situation, find_candidates, is_settled
from dali_pipes.arguments.names import spelled

NOW = Situation(
    num_threads=8,
    prefetch=3,
    num_helpers=0,
    device="cpu",
    decoder="cpu",
    engine="fused",
    fixed=frozenset(),
    shares={"decode": 0.7, "augment": 0.3},
)
ON_GPU = replace(NOW, device="cuda", decoder="cuda", shares={})


@pytest.fixture(autouse=True)
def _dali(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a GPU, and DALI is installed."""
    known = {"cuda": "", "dali": "", "cpu": ""}
    monkeypatch.setattr("bench.tune.candidates.available_decoders", lambda: known)


def names(now: Situation) -> list[str]:
    """Return the candidates, written in Python."""
    return [spelled(settings) for settings in find_candidates(now)]


def test_all_candidates_on_a_cpu() -> None:
    """Threads, prefetch, a helper process, decoders and engines, in this order."""
    assert names(NOW) == [
        "num_threads=16",
        "execution=Execution(prefetch=6)",
        "num_threads=4",
        "execution=Execution(helper_process=True)",
        "decoder='dali'",
        "engine='kornia'",
        "engine='albumentations'",
    ]


@pytest.mark.parametrize(
    ("now", "tried", "not_tried"),
    [
        (
            replace(NOW, fixed=frozenset({"num_threads"})),
            ["execution=Execution(prefetch=6)"],
            ["num_threads=16"],
        ),
        (replace(NOW, shares={"augment": 1.0}), ["engine='kornia'"], ["decoder='dali'"]),
        (replace(NOW, shares={"decode": 1.0}), ["decoder='dali'"], ["engine='kornia'"]),
        (
            replace(NOW, shares={"read": 0.5}),
            ["num_threads=32, execution=Execution(prefetch=32)"],
            [],
        ),
        (NOW, [], ["num_threads=32, execution=Execution(prefetch=32)"]),
        (replace(NOW, num_threads=1), [], ["num_threads=0"]),
        (
            replace(NOW, num_helpers=2),
            ["execution=Execution(helper_process=False)"],
            ["execution=Execution(helper_process=True)"],
        ),
        (
            ON_GPU,
            [
                "decoder='dali'",
                "decoder='cpu'",
                "execution=Execution(cache='device')",
                "engine='kornia'",
            ],
            ["engine='albumentations'", "execution=Execution(helper_process=True)"],
        ),
        (ON_GPU, ["decoder='cpu', execution=Execution(helper_process=True)"], []),
        (
            replace(ON_GPU, fixed=frozenset({"decoder"})),
            ["execution=Execution(cache='device')"],
            ["decoder='cpu', execution=Execution(helper_process=True)", "decoder='dali'"],
        ),
        (
            replace(ON_GPU, decoder="dali"),
            ["decoder='cuda'"],
            ["execution=Execution(cache='device')"],
        ),
    ],
)
def test_candidates_follow_from_the_situation(
    now: Situation, tried: list[str], not_tried: list[str]
) -> None:
    """What the user gave is left alone, and what cannot matter is not tried."""
    found = names(now)

    assert set(tried) <= set(found)
    assert not set(not_tried) & set(found)


@pytest.mark.parametrize(
    ("settings", "kept", "expected"),
    [
        ({"num_threads": 2}, {"num_threads": 8}, True),
        ({"num_threads": 16}, {"num_threads": 8}, False),
        ({"num_threads": 2, "prefetch": 4}, {"num_threads": 8}, False),
        ({"prefetch": 2}, {"num_threads": 8}, False),
        ({"helper_process": False}, {"helper_process": True}, False),
    ],
)
def test_fewer_of_what_was_kept_is_not_tried(
    settings: dict[str, int], kept: dict[str, int], expected: bool
) -> None:
    """If eight threads were better than two, four need no trial."""
    assert is_settled(settings, kept) is expected
