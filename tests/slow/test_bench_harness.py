"""The benchmark harness: nothing is dropped, and one failure stops nothing."""

import json
import sys
from pathlib import Path

import pytest

from echobuf.cli.bench import Candidate, Question, measure, print_table, rounds
from echobuf.cli.bench.report import figures, write_figures
from echobuf.cli.bench.rounds import CandidateProcess, Ratio, paired_ratio
from echobuf.cli.environment import environment
from scripts import BENCH, importable

MODULE = "harness_candidates"
FOLDER = Path(__file__).parents[1] / "bench" / "bench_candidates"


def candidate(name, kind="Adds", **more):
    return Candidate(name, f"{MODULE}:{kind}", **more)


def question(*candidates, settle_s=0, **more):
    return Question(
        "sums",
        "sum",
        (candidate("plain"), *candidates),
        reference="plain",
        path=(FOLDER,),
        settings={"count": 1000, "chunks": 2},
        settle_s=settle_s,
        **more,
    )


@pytest.fixture(scope="module")
def answered():
    asked = question(
        candidate("twice", settings={"count": 2000}),
        candidate("absent", "NotInstalled"),
        candidate("dishonest", "Refuses"),
        candidate("crashing", "Crashes"),
        candidate("no interpreter", python="/nonexistent/python"),
        candidate("misspelt", "NoSuchClass"),
        settle_s=0.2,
    )
    return asked, measure(asked, 3)


def test_each_candidate_has_figures_or_a_reason(answered):
    asked, outcomes = answered
    assert list(outcomes) == [c.name for c in asked.candidates]
    failed = {n: (o.failed_at, o.reason) for n, o in outcomes.items() if o.failed_at}
    assert failed.keys() == {
        "absent",
        "dishonest",
        "crashing",
        "no interpreter",
        "misspelt",
    }
    assert failed["absent"][0] == "import"
    assert "no_such_peer" in failed["absent"][1]
    assert failed["dishonest"] == ("warm_up", "ValueError: only 3 of 4 uses")
    assert failed["crashing"][0] == "round"
    assert "SIGABRT" in failed["crashing"][1]
    assert failed["no interpreter"][0] == "start"
    assert "NoSuchClass" in failed["misspelt"][1]


def test_table_and_file_name_every_candidate(answered, tmp_path, capsys):
    asked, outcomes = answered
    print_table(asked, outcomes)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    path = write_figures(asked.name, tmp_path, figures(asked, outcomes))
    content = json.loads(path.read_text())
    for name in outcomes:
        assert name in printed
        assert name in content["results"]
    twice, ratio = content["results"]["twice"], outcomes["twice"].ratio
    assert twice["speed_over_reference"] == ratio.median
    assert twice["ratio_range"] == [ratio.least, ratio.most]
    plain = content["results"]["plain"]
    assert plain["versions"]["pip"] is not None
    assert plain["versions"]["no-such-package"] is None
    assert plain["versions"]["_pytest"] == plain["versions"]["pytest"]
    assert plain["guarantees"] == {"exact use": "yes"}
    assert {"commit", "uncommitted_changes", "date", "cpu", "cores", "command"} <= (
        content["environment"].keys()
    )


class Impatient(CandidateProcess):
    """Has no time for the round of a candidate that hangs in it, and all for others."""

    def ask(self, do, **arguments):
        if self.candidate.name == "hanging" and do == "round":
            self.timeout_s /= 1000
        return super().ask(do, **arguments)


def test_a_hang_is_ended_and_named(monkeypatch):
    monkeypatch.setattr(rounds, "CandidateProcess", Impatient)
    outcomes = measure(question(candidate("hanging", "Hangs"), timeout_s=90), 1)
    assert outcomes["hanging"].failed_at == "round"
    assert "no answer within 0.09 s" in outcomes["hanging"].reason
    assert len(outcomes["plain"].rounds) == 1


@pytest.mark.parametrize(
    ("reference", "other", "expected"),
    [
        # In the first round the machine was slow for both.
        ([10.0, 1.0, 2.0], [20.0, 1.0, 1.0], Ratio(1.0, 0.5, 2.0)),
        ([10.0, None, 2.0, 8.0], [20.0, 1.0, None, 2.0], Ratio(2.25, 0.5, 4.0)),
        ([10.0, 2.0], [20.0], Ratio(0.5, 0.5, 0.5)),
    ],
)
def test_a_ratio_is_the_median_of_those_of_the_rounds(reference, other, expected):
    assert paired_ratio(reference, other) == expected


def test_options_choose_candidates_and_interpreters(monkeypatch, tmp_path):
    with importable(monkeypatch, BENCH) as load:
        running = load("running")
    asked = question(
        candidate("one"), candidate("two", reference="one"), candidate("three")
    )
    parser = running.make_parser(None, tmp_path)
    chosen = running.select(
        asked, parser.parse_args(["--only", "TWO", "--python", "one=/p"])
    )
    assert [c.name for c in chosen.candidates] == ["plain", "one", "two"]
    assert [c.python for c in chosen.candidates] == [None, "/p", None]
    everyone = running.select(asked, parser.parse_args(["--python", sys.executable]))
    assert {c.python for c in everyone.candidates} == {sys.executable}


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("/somewhere/echobuf/__main__.py", "python -m echobuf"),
        ("/somewhere/bin/echobuf", "echobuf"),
        ("/somewhere/bench/cache.py", "python cache.py"),
        ("bench/cache.py", "python bench/cache.py"),
    ],
)
def test_a_result_names_its_command_but_no_path_of_the_machine(
    monkeypatch, program, command
):
    monkeypatch.setattr("sys.argv", [program, "--rounds", "3"])
    assert environment()["command"] == f"{command} --rounds 3"
