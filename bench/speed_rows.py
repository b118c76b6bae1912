"""Speeds that users meet first, of this build and of another one, in one run.

`--before PATH` is the interpreter of an environment that has the other build, side by
side with this one: each candidate of echobuf's is measured with both, in the same
rounds. Its targets are those of the other build, but for the puts'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import around_data_loader
from echobuf.cli.bench import Candidate, Question
from echobuf.cli.bench.questions import IMAGES, LOADER, PUTS
from echobuf.cli.bench.report import figures, print_table, write_figures
from echobuf.cli.bench.rounds import Outcome, measure, paired_ratio
from running import make_parser, select
from sampling import HERE, RESULTS

BEFORE = ", before"
OWN = ("echobuf", "EchoLoader", "array and", "tensor and")
ECHO = "echobuf EchoLoader"
PAIRS = "[3, 32, 32]", "[3, 64, 64]"


class Row(NamedTuple):
    """The speed of a candidate over that of another one, and what it should be."""

    question: str
    name: str
    over: str
    aim: float


ROWS = (
    Row("loader", ECHO, "bare copy limit", 0.90),
    Row("loader", ECHO, "NumPy ring", 1.40),
    Row("puts", "array and np.int64", "tensor and int", 1.40),  # the most
    Row("image_batches", "echobuf", "streaming copy", 1.0),
    *(
        Row(
            "around_data_loader",
            f"{shape}, EchoLoader",
            f"{shape}, DataLoader alone",
            a,
        )
        for shape, a in zip(PAIRS, (0.95, 0.97), strict=True)
    ),
)


def questions() -> list[Question]:
    """Return the questions that the rows are of, with their candidates alone."""
    room = HERE.parent / "python" / "echobuf" / "cli" / "bench"
    putting = [
        replace(each, target=each.target.removeprefix("echobuf.cli.bench."))
        for each in PUTS.candidates
    ]
    puts = replace(PUTS, candidates=tuple(putting), path=(room,))
    pairs = replace(
        around_data_loader.QUESTION, reference=f"{PAIRS[0]}, DataLoader alone"
    )
    found = []
    for question in (LOADER, puts, IMAGES, pairs):
        rows = [row for row in ROWS if row.question == question.name]
        names = {question.reference, *(name for row in rows for name in row[1:3])}
        kept = [each for each in question.candidates if each.name in names]
        found.append(replace(question, candidates=tuple(kept)))
    return found


def with_before(question: Question, python: str) -> Question:
    """Return the question with each candidate of echobuf's once more."""

    def before(candidate: Candidate) -> Candidate:
        own = {each.name for each in question.candidates if is_own(each.name)}
        reference = candidate.reference
        return replace(
            candidate,
            name=candidate.name + BEFORE,
            python=python,
            reference=f"{reference}{BEFORE}" if reference in own else reference,
        )

    return replace(
        question,
        candidates=tuple(
            one
            for each in question.candidates
            for one in ([each, before(each)] if is_own(each.name) else [each])
        ),
        resident=None,
    )


def is_own(name: str) -> bool:
    return any(word in name for word in OWN)


def speed(outcomes: dict[str, Outcome], row: Row, suffix: str = "") -> float | None:
    """Return the ratio of a row, of this build or of the other one."""
    over = row.over + suffix if is_own(row.over) else row.over
    pair = [outcomes.get(over), outcomes.get(row.name + suffix)]
    if any(each is None or each.failed_at for each in pair):
        return None
    reference, other = (each.seconds for each in pair if each is not None)
    return paired_ratio(reference, other).median


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--before", metavar="PATH", help="interpreter of another build")
    parser.add_argument("--ask", metavar="A,B", help="only these questions")
    options = parser.parse_args()
    asked_for = (options.ask or ",".join(row.question for row in ROWS)).split(",")
    found, lines = {}, []
    for question in questions():
        if question.name not in asked_for:
            continue
        asked = with_before(question, options.before) if options.before else question
        asked = select(asked, options)
        outcomes = measure(asked, options.rounds)
        print_table(asked, outcomes)
        found[question.name] = figures(asked, outcomes)
        for row in ROWS:
            if row.question == question.name:
                now, then = speed(outcomes, row), speed(outcomes, row, BEFORE)
                lines.append({**row._asdict(), "before": then, "now": now})
    for line in lines:
        print(*(f"{key} {value}" for key, value in line.items()), sep=", ")
    write_figures("speed_rows", options.out, {"rows": lines, "questions": found})


if __name__ == "__main__":
    main()
