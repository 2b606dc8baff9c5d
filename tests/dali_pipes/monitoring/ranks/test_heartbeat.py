"""What `heartbeat=` takes, the notes of ranks, the boards where they are left, and which rank is late by them."""

import pickle
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed

from dali_pipes import Heartbeat, LoaderError, RankTable
from dali_pipes.monitoring.ranks.board import (
    Board,
    BoardError,
    FolderBoard,
    StoreBoard,
    StoreGoneError,
    group_board,
)
from dali_pipes.monitoring.ranks.heartbeat_options import as_heartbeat
from dali_pipes.monitoring.ranks.heartbeat_sender import PeerReports
from dali_pipes.monitoring.ranks.rank_report import RankReport
from dali_pipes.monitoring.ranks.rank_table import find_late, find_other_draws

NOTE = RankReport(
    rank=2, host="node1", pid=17, number=3, at=1.5, epoch=1, steps=40, stages={"read": 0.01}
)


class TestOptions:
    def test_short_forms(self, tmp_path: Path) -> None:
        """A folder stands for a Heartbeat of that folder, None for none."""
        given = Heartbeat(every_seconds=1, stall_seconds=9)
        short = ("auto", None, tmp_path, given)
        expected = [Heartbeat(), None, Heartbeat(folder=tmp_path), given]
        assert [as_heartbeat(one) for one in short] == expected
        assert pickle.loads(pickle.dumps(given)) == given

    @pytest.mark.parametrize("wrong", [True, 5, b"folder", ["folder"]])
    def test_refused(self, wrong: Any) -> None:
        """Anything else is refused with what is allowed."""
        with pytest.raises(LoaderError, match='is not known; allowed are "auto", a folder'):
            as_heartbeat(wrong)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (
                {"every_seconds": 0},
                "every_seconds=0 is not allowed; give seconds, from 0.1 to 3600",
            ),
            ({"every_seconds": "5"}, "every_seconds='5' is not allowed"),
            ({"every_seconds": float("nan")}, "every_seconds=nan is not allowed"),
            ({"stall_seconds": True}, "stall_seconds=True is not allowed; give seconds, at least"),
            ({"folder": ""}, "folder='' is no folder"),
            ({"folder": 3}, "folder=3 is no folder"),
            ({"folder": __file__}, "is a file; give a folder for it"),
        ],
    )
    def test_numbers_and_folders(self, options: dict[str, Any], said: str) -> None:
        """Impossible numbers and folders are named."""
        with pytest.raises(LoaderError, match=re.escape(said)):
            Heartbeat(**options)


class TestNotes:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[]",
            b"{}",
            b'{"format": 2, "rank": 0}',
            b'{"format": 1, "rank": 0, "more": 1}',
            b'{"format": 1, "rank": 0, "steps": "many"}',
            b'{"format": 1, "rank": "0"}',
            b'{"format": 1, "rank": 0, "stages": {"read": null}}',
            b"\xff\xfe",
        ],
    )
    def test_what_is_no_note(self, data: bytes) -> None:
        """What is damaged, or of another version, counts as nothing; a sound note is the same after it was read."""
        assert RankReport.from_bytes(data) is None
        assert RankReport.from_bytes(NOTE.to_bytes()) == NOTE


@pytest.fixture(params=["folder", "store"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Board:
    """Every kind of board."""
    if request.param == "folder":
        return FolderBoard(tmp_path / "made" / "anew")
    return StoreBoard(torch.distributed.HashStore())


class TestBoards:
    def test_latest_note(self, board: Board) -> None:
        """Each rank has a place, where its latest note is; what is not there is not waited for."""
        assert board.read(0) is None
        board.write(0, b"one")
        board.write(1, b"two")
        board.write(0, b"three")
        assert [board.read(rank) for rank in range(3)] == [b"three", b"two", None]

    def test_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        """The folder is named."""
        (tmp_path / "file").touch()
        with pytest.raises(BoardError, match="file/below cannot be written to"):
            FolderBoard(tmp_path / "file" / "below").write(0, b"")

    def test_two_writers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two loops of a process may write the note of their rank at once."""
        boards, write = [FolderBoard(tmp_path), FolderBoard(tmp_path)], Path.write_bytes
        other = threading.Thread(target=boards[1].write, args=(0, b"two"))

        def overtaken(path: Path, data: bytes) -> int:
            number = write(path, data)
            if data == b"one":
                other.start()
                other.join()
            return number

        monkeypatch.setattr(Path, "write_bytes", overtaken)
        boards[0].write(0, b"one")
        assert [board.read(0) for board in boards] == [b"one", b"one"]
        assert [path.name for path in tmp_path.iterdir()] == ["rank-0.json"]

    def test_one_name_for_a_folder(self, tmp_path: Path) -> None:
        """A folder is the same however it is written."""
        (tmp_path / "link").symlink_to(tmp_path / "notes")
        ways = [tmp_path / "notes", tmp_path / "link", tmp_path / "link" / ".." / "notes"]
        assert {FolderBoard(way).name for way in ways} == {str((tmp_path / "notes").resolve())}

    def test_server_that_ended(self, capfd: pytest.CaptureFixture[str]) -> None:
        """A store whose server has ended is given up at once, and torch writes no page of frames."""
        server = torch.distributed.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
        )
        client = torch.distributed.TCPStore("127.0.0.1", server.port, is_master=False)
        board = StoreBoard(torch.distributed.PrefixStore("group", client))
        board.write(0, b"one")
        assert board.read(0) == b"one"
        del server
        with pytest.raises(StoreGoneError, match="its server has ended"):  # noqa: PT012
            for _ in range(500):  # five seconds
                board.write(0, b"two")
                time.sleep(0.01)
        assert capfd.readouterr().err == ""


class TestGroups:
    """The store of a process group."""

    @pytest.fixture
    def group(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
        """Stand for a group of two ranks with a store; making one needs two processes."""
        fake = SimpleNamespace(
            **{
                name: getattr(torch.distributed, name)
                for name in ("PrefixStore", "TCPStore", "FileStore")
            },
            is_available=lambda: True,
            is_initialized=lambda: True,
            get_world_size=lambda: 2,
            get_rank=lambda: 1,
        )
        monkeypatch.setattr("dali_pipes.monitoring.ranks.board._dist", fake)

        def use(store: Any) -> None:
            fake.distributed_c10d = SimpleNamespace(_get_default_store=lambda: store)

        return use

    def test_one_board_for_a_group(self, group: Callable[[Any], None]) -> None:
        """All loops of a process share a connection, and another group has another."""
        stores = torch.distributed.HashStore(), torch.distributed.HashStore()
        group(stores[0])
        first = group_board()
        assert first == group_board() == (first[0], 1, 2)
        group(stores[1])
        assert first != group_board()

    def test_number_that_comes_back(
        self, group: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The store of a later group may get the identity of an earlier one, and is another all the same."""
        monkeypatch.setattr("dali_pipes.monitoring.ranks.board.id", lambda _: 1, raising=False)
        found = []
        for note in (b"one", b"two"):
            group(torch.distributed.HashStore())
            board, *_ = group_board()
            found.append(board.read(0))
            board.write(0, note)
        assert found == [None, None]

    def test_holds_no_server(self, group: Callable[[Any], None]) -> None:
        """A group that is destroyed takes its server with it, so that another can have the port."""
        server = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port = server.port
        group(torch.distributed.PrefixStore("group", server))
        assert group_board() is not None
        del server
        group(None)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=10)

    def test_file(self, group: Callable[[Any], None], tmp_path: Path) -> None:
        """A store in a file is left alone: torch deletes the file when the last rank has ended."""
        group(
            torch.distributed.PrefixStore("a", torch.distributed.FileStore(str(tmp_path / "f"), 2))
        )
        with pytest.raises(BoardError, match="is a file, which cannot hold reports: give"):
            group_board()

    def test_none(self) -> None:
        """Without a group there is none."""
        assert group_board() is None


class TestPeerReports:
    def test_silence_is_measured_here(self, tmp_path: Path) -> None:
        """A note gets older by the reader's clock until its number changes."""
        board = FolderBoard(tmp_path)
        heard = PeerReports(board, rank=0)
        heard.read([2], 10.0)
        board.write(2, NOTE.to_bytes())
        heard.read([2], 11.0)
        heard.read([2], 15.0)
        assert [note.age_seconds for note in heard.live(15.0)] == [4.0]
        board.write(2, RankReport(rank=2, number=4).to_bytes())
        heard.read([2], 16.0)
        assert [note.age_seconds for note in heard.live(16.5)] == [0.5]

    def test_notes_of_an_earlier_run(self, tmp_path: Path) -> None:
        """What lay there from the first is believed once it changes; a note of another rank never."""
        board = FolderBoard(tmp_path)
        board.write(2, NOTE.to_bytes())
        board.write(3, NOTE.to_bytes())
        heard = PeerReports(board, rank=0)
        heard.read([2, 3], 1.0)
        assert heard.live(1.0) == []
        board.write(2, RankReport(rank=2, number=4).to_bytes())
        heard.read([2, 3], 2.0)
        assert [note.rank for note in heard.live(2.0)] == [2]


STAGES = {"read": 0.001, "decode": 0.004}


def notes(count: int = 4, **odd: Any) -> list[RankReport]:
    """Ranks that are alike, of which the last but one is odd."""
    usual = RankReport(
        rank=0, host="node", window_seconds=30, samples=3000, wait_seconds=1, stages=STAGES
    )
    ranks = [replace(usual, rank=rank) for rank in range(count)]
    ranks[-2] = replace(ranks[-2], **odd)
    return ranks


def test_nobody_is_late() -> None:
    """Where all are alike, also where all of them wait; and other loops are compared with nothing."""
    slow = {"read": 0.01, "decode": 0.004}  # of which nobody waits for batches
    for table in (
        notes(),
        notes(2),
        [replace(note, wait_seconds=28) for note in notes()],
        notes(stages=slow),
        notes(wait_seconds=28, loop="other"),  # an evaluation on one rank
        notes(wait_seconds=28, samples=0),  # who has no batch yet
    ):
        assert find_late(table) == []


def test_other_draws() -> None:
    """Ranks with another seed are named, unless they have other data, are between loops or have no other ranks."""
    seeds = [
        RankReport(rank=rank, loop="train", draws=f"seed={rank}", window_seconds=1)
        for rank in range(3)
    ]
    said = find_other_draws(seeds)
    assert said.startswith("2 of 3 ranks have another seed or other mixture weights than rank 0: ")
    assert "rank 0 has seed=0, rank 1 has seed=1; so some samples come on several ranks" in said
    assert said in repr(RankTable(seeds))
    for changes in ({"draws": "seed=0"}, {"draws": ""}, {"loop": "test"}, {"state": "over"}):
        usual: list[Any] = [seeds[0], *(replace(one, **changes) for one in seeds[1:])]
        assert find_other_draws(usual) == ""


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


@pytest.mark.parametrize(
    ("count", "odd", "who", "says"),
    [
        (
            *(2, {"stages": {"read": 0.0082, "decode": 0.004}, "file": "train-000017.tar"}),
            *((0, "read"), "read (most often found at train-000017.tar) takes 8.2 times as long"),
        ),
        (
            *(4, {"stages": {"read": 0.001, "decode": 0.012}, "core_shares": {"decode": 0.3}}),
            *((2, "decode"), "its threads had a core for 30% of that time, elsewhere 100%"),
        ),
        (4, {}, (2, ""), "no stage takes longer there, so it has fewer threads at work"),
    ],
    ids=["file", "cores", "threads"],
)
def test_what_is_special(count: int, odd: dict[str, Any], who: tuple[int, str], says: str) -> None:
    """The file where reading was found most often, a stage that has no core, or fewer threads."""
    [late] = find_late(notes(count, wait_seconds=18, **odd))
    assert (late.rank, late.stage) == who
    assert says in late.text


def test_ranks_that_do_not_wait_for_each_other() -> None:
    """Where all wait for their loaders alone, the slower one is late."""
    ranks = [replace(note, wait_seconds=28) for note in notes(samples=1000)]
    [late] = find_late(ranks)
    assert late.rank == 2
    assert "it has 33.3 images/s, the other ranks 100" in late.text


def test_table() -> None:
    """Printed, all ranks have a line, and who is late has a sentence."""
    waiting = {"state": "loader", "waits_for": "read a.tar, 9 s", "wait_seconds": 20}
    table = RankTable(notes(**waiting), "1 of 5 ranks have not reported yet")
    head, *lines, late, _ = repr(table).splitlines()
    assert (head.split()[:3], [late]) == (["rank", "epoch", "step"], table.late)
    assert "loader: read a.tar, 9 s" in lines[2]
    assert [note.rank for note in table] == [0, 1, 2, 3]
    assert len(table) == len(lines) == 4
