"""The preparation of many shards on many machines, simulated with the code that does it for real."""

import numpy as np
import pytest

from readers.order.permutation import make_keys, permute
from readers.prepare.errors import PrepareError
from readers.prepare.job import Job
from readers.prepare.scheduling import run_tasks
from tests.support.simulated_cluster import Machines, SimulatedCluster
from tests.support.simulated_shards import ENTRY, FILE, INDEX, WRITING, Fate, Fates, Storage


class OneInFifty(Fates):
    """Exactly one first attempt of fifty dies, and no other."""

    def of(self, number: int, attempt: int) -> Fate:
        """See `Fates.of`."""
        place = int(permute(np.asarray([number]), 1000, make_keys(0))[0])
        fate = super().of(number, attempt)
        return fate._replace(dies_after=place % 4 if place < 20 and attempt == 0 else None)


def simulate(count: int, fates: Fates, machines: Machines) -> tuple[Storage, SimulatedCluster]:
    """Make so many shards."""
    storage = Storage(count)
    cluster = SimulatedCluster(storage, fates, machines)
    done = [number for number, _ in run_tasks(Job(abs, range(count)), cluster, clock=cluster.clock)]
    assert sorted(done) == list(range(count))
    return storage, cluster


def test_of_a_thousand_tasks_one_in_fifty_dies() -> None:
    """Every shard is made; only those that died after they could be seen, and before their entry, twice."""
    storage, cluster = simulate(1000, OneInFifty(10.0), Machines(5, 2))

    assert (storage.merge(), storage.is_sound()) == (1000, True)
    assert cluster.counts.deaths == [5, 5, 5, 5]
    assert cluster.counts.attempts <= 1020 + 10  # and those that are overtaken
    assert int((storage.made > 1).sum()) == 10
    assert cluster.clock() < 1.1 * 1000 * 10 / 10


def test_nodes_die_are_cut_off_and_come_back() -> None:
    """Tasks that hang, that are slow, and that go on without anybody hearing of them leave everything whole."""
    fates = Fates(15, slow=0.01, hang=0.001, die=0.02, seed=1)
    machines = Machines(20, 5, node_dies_seconds=30, cut_off=2)

    storage, cluster = simulate(5000, fates, machines)

    assert (storage.merge(), storage.is_sound()) == (5000, True)
    assert cluster.counts.node_deaths > 10
    assert cluster.counts.most_in_flight <= 200
    assert cluster.running() == 0


def test_a_driver_that_stops_leaves_what_another_one_goes_on_with() -> None:
    """Nothing runs on; the second driver hands over what has no entry."""
    storage = Storage(400)
    first = SimulatedCluster(storage, Fates(10, die=0.1), Machines(4, 5))
    results = run_tasks(Job(abs, range(400)), first, clock=first.clock)
    for _ in range(150):
        next(results)
    results.close()  # type: ignore[attr-defined]

    assert first.running() == 0
    assert storage.is_sound()
    with pytest.raises(PrepareError, match="shards are not done"):
        storage.merge()

    rest = [number for number in range(400) if not storage.has_entry(number)]
    second = SimulatedCluster(storage, Fates(10, die=0.1, seed=1), Machines(1, 3))
    assert sorted(n for n, _ in run_tasks(Job(abs, rest), second, clock=second.clock)) == rest
    assert (storage.merge(), storage.is_sound()) == (400, True)
    assert len(rest) <= 250


def test_an_entry_before_its_index_would_be_noticed() -> None:
    """The check of the storage can fail."""
    storage = Storage(1)
    storage.write(0, WRITING)
    storage.write(0, FILE)
    assert storage.is_sound()

    storage.seen[0, ENTRY] = True

    assert not storage.is_sound()
    storage.seen[0, INDEX] = True
    assert storage.is_sound()
