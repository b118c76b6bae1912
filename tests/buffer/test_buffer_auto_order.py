"""With factor "auto" too, what is served follows from what was put, and when."""

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import SPEC, ids_of, keyed, put_what_fits
from schedule_reference import Auto, Order


@dataclass
class Model:
    """A buffer of plain lists, by the reference; nothing in it waits."""

    auto: Auto
    order: Order
    put: int = 0
    passes: int = 0
    held_back: bool = False
    ended: bool = False
    finished: bool = False
    left: list[int] = field(default_factory=list)
    batch: list[int] = field(default_factory=list)

    def room(self) -> int:
        return self.auto.capacity - (
            self.put - min(self.put, self.auto.start(self.auto.lo))
        )

    def put_what_fits(self, number: int) -> int:
        self.held_back |= number > self.room()
        done = min(number, self.room())
        self.put += done
        return done

    def next_batch(self) -> list[int] | None:
        """A batch, or None for a wait; an empty one at the end."""
        while len(self.batch) < self.auto.batch_size:
            if not self.left and not self.begin_pass():
                if not self.finished:
                    return None
                break
            self.batch.append(self.left.pop(0))
        served, self.batch = self.batch, []
        return served

    def begin_pass(self) -> bool:
        state = self.auto.advance(self.put, held_back=self.held_back, ended=self.ended)
        self.held_back = False
        self.finished = state == "finished"
        if state != "pass":
            return False
        first, end = (self.auto.start(edge) for edge in (self.auto.lo, self.auto.hi))
        window = range(first, min(end, self.put))
        self.left = [window[t] for t in self.order(self.passes, len(window))]
        self.passes += 1
        return True


def draw(buffer: Any) -> list[int] | None:
    """Return the buffer's answer in the form of the model's `next_batch`."""
    try:
        return ids_of(buffer.next_batch(timeout=0))
    except TimeoutError:
        return None
    except StopIteration:
        return []


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    window = draw(st.integers(1, 60))
    return {
        "window": window,
        "batch_size": draw(st.integers(1, window)),
        "max_factor": draw(st.integers(1, 6)),
        "seed": draw(st.integers(0, 2**63 - 1)),
    }


def model_of(case: dict[str, Any]) -> Model:
    auto = Auto(case["window"], case["batch_size"], case["max_factor"])
    return Model(auto, keyed(case["seed"], 0))


TURNS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=40)


@settings(deadline=None, max_examples=150)
@given(cases(), TURNS)
def test_every_batch_is_that_of_the_model(case, turns):
    model = model_of(case)
    with echobuf.EchoBuffer(SPEC, factor="auto", **case) as buffer:
        for puts, takes in turns:
            fresh = range(model.put, model.put + puts)
            assert put_what_fits(buffer, fresh) == model.put_what_fits(puts)
            for _ in range(takes):
                assert draw(buffer) == model.next_batch()
        buffer.close()
        model.ended = True
        while expected := model.next_batch():
            assert draw(buffer) == expected
        assert draw(buffer) == []


@settings(deadline=None, max_examples=80)
@given(cases(), TURNS)
def test_a_resumed_pass_continues_exactly(case, turns):
    model = model_of(case)
    rest: list[int] = []  # of the pass that the last batch handed out came from
    with echobuf.EchoBuffer(SPEC, factor="auto", **case) as buffer:
        for puts, takes in turns:
            put_what_fits(buffer, range(model.put, model.put + puts))
            model.put_what_fits(puts)
            for _ in range(takes):
                expected = model.next_batch()
                assert draw(buffer) == expected
                rest = rest if expected is None else model.left.copy()
        state = json.dumps(buffer.state_dict())
    with echobuf.EchoBuffer(SPEC, factor="auto", **case) as buffer:
        loaded = json.loads(state)
        buffer.load_state_dict(loaded)
        put_what_fits(buffer, range(loaded["fresh_offset"], model.put))
        while len(rest) >= case["batch_size"]:
            assert draw(buffer) == rest[: case["batch_size"]]
            del rest[: case["batch_size"]]


def test_the_state_is_small():
    with echobuf.EchoBuffer(SPEC, factor="auto", window=4096, batch_size=8) as buffer:
        put_what_fits(buffer, range(4096))
        for _ in range(100):
            buffer.next_batch(timeout=0)
        assert len(json.dumps(buffer.state_dict())) < 2000
