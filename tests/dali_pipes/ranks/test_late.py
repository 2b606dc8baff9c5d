"""Which rank is late and why, from notes that are written down here."""

from dataclasses import replace
from typing import Any

from dali_pipes import RankTable
from dali_pipes.ranks.late import find_late
from dali_pipes.ranks.note import Note

STAGES = {"read": 0.001, "decode": 0.004}


def notes(count: int = 4, **odd: Any) -> list[Note]:
    """Ranks that are alike, of which the last but one is odd."""
    usual = Note(
        rank=0, host="node", window_seconds=30, samples=3000, wait_seconds=1, stages=STAGES
    )
    ranks = [replace(usual, rank=rank) for rank in range(count)]
    ranks[-2] = replace(ranks[-2], **odd)
    return ranks


def test_alike() -> None:
    """Nobody is late where all are alike, also where all of them wait."""
    assert find_late(notes()) == []
    assert find_late(notes(2)) == []
    assert find_late([replace(note, wait_seconds=28) for note in notes()]) == []


def test_slow_stage_that_nobody_waits_for() -> None:
    """A stage may take longer where its batches are there in time."""
    assert find_late(notes(stages={"read": 0.01, "decode": 0.004})) == []


def test_decoding() -> None:
    """The stage that costs most time beyond the median is named, with what is special about the images."""
    odd = {"stages": {"read": 0.002, "decode": 0.0124}, "whole_images": {"progressive JPEG": 14}}
    [late] = find_late(notes(wait_seconds=18.6, **odd))
    assert (late.rank, late.stage) == (2, "decode")
    assert late.text == (
        "rank 2 (node) is late: its training loop waits 62% of the time for batches, that of the other ranks 3%; "
        "decode takes 3.1 times as long as on the median rank, 12.4 ms per sample instead of 4 ms; "
        "14 of its 3000 images are progressive JPEG, elsewhere 0%"
    )


def test_reading() -> None:
    """The file is named where reading was found at one most often."""
    odd = {"stages": {"read": 0.0082, "decode": 0.004}, "file": "train-000017.tar"}
    [late] = find_late(notes(2, wait_seconds=18, **odd))
    assert (late.rank, late.stage) == (0, "read")
    assert "read (most often found at train-000017.tar) takes 8.2 times as long" in late.text


def test_cores() -> None:
    """A stage that has no core has not more to do."""
    odd = {"stages": {"read": 0.001, "decode": 0.012}, "core_shares": {"decode": 0.3}}
    [late] = find_late(notes(wait_seconds=18, **odd))
    assert "its threads had a core for 30% of that time, elsewhere 100%" in late.text


def test_fewer_threads() -> None:
    """Where no stage takes longer, that is said."""
    [late] = find_late(notes(wait_seconds=18))
    assert (late.rank, late.stage) == (2, "")
    assert "no stage takes longer there, so it has fewer threads at work" in late.text


def test_ranks_that_do_not_wait_for_each_other() -> None:
    """Where all wait for their loaders alone, the slower one is late."""
    ranks = [replace(note, wait_seconds=28) for note in notes(samples=1000)]
    [late] = find_late(ranks)
    assert late.rank == 2
    assert "it has 33.3 images/s, the other ranks 100" in late.text


def test_other_loops_are_not_compared() -> None:
    """An evaluation on one rank is compared with nothing; nor is who has no batch yet."""
    assert find_late(notes(wait_seconds=28, loop="other")) == []
    assert find_late(notes(wait_seconds=28, samples=0)) == []


def test_table() -> None:
    """Printed, all ranks have a line, and who is late has a sentence."""
    waiting = {"state": "loader", "waits_for": "read a.tar, 9 s", "wait_seconds": 20}
    table = RankTable(notes(**waiting), "1 of 5 ranks has said nothing yet")
    lines = repr(table).splitlines()
    assert len(lines) == 1 + 4 + 1 + 1
    assert lines[0].split()[:3] == ["rank", "epoch", "step"]
    assert "loader: read a.tar, 9 s" in lines[3]
    assert lines[5] == table.late[0]
    assert [note.rank for note in table] == [0, 1, 2, 3]
    assert len(table) == 4
