"""bench/hand_over.py compares queues with echobuf's, round by round."""

from scripts import BENCH, importable

# Nanoseconds of the warm-up and three rounds; the machine was slow in the second.
TIMES = {"echobuf": [999, 100, 900, 200], "boost queue": [1, 150, 450, 400]}


class Scripted:
    """A stand-in for the native program: what each run takes is given."""

    def __init__(self):
        self.left = {}

    def can(self, queue, producers, sleep):
        return queue in TIMES

    def run(self, queue, size, producers, sleep, count):
        left = self.left.setdefault((queue, size, producers, sleep), TIMES[queue][:])
        return left.pop(0) * count


def test_queues_are_compared_with_echobufs_in_the_same_round(monkeypatch, capsys):
    with importable(monkeypatch, BENCH) as load:
        rows = load("hand_over").throughput(Scripted(), 3, 10)
    for row in rows:
        assert row["ns_a_record"] == {"echobuf": 200, "boost queue": 400}
        assert row["of_echobufs_time"] == {
            "boost queue": {"ratio": 1.5, "ratio_range": [0.5, 2.0]}
        }
    assert "400.0 ns, 1.500 of echobuf's" in capsys.readouterr().out
