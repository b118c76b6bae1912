"""A state that is damaged, or of another buffer, is refused and changes nothing."""

import json

import pytest

import echobuf
from helpers import (
    KWARGS,
    SPEC,
    WAIT_S,
    expected_batches,
    make,
    middle,
    pump,
    stable_id,
    stack,
)

pytestmark = pytest.mark.contract


def refused(state, match=None, **kwargs):
    with make(**kwargs) as buffer:
        with pytest.raises(echobuf.StateError, match=match):
            buffer.load_state_dict(state)
        assert list(pump(buffer, range(9), [5])) == expected_batches(
            {**KWARGS, **kwargs}, 9
        ), "a refused state changes nothing"


def paths(value, path=()):
    """Yield the paths of a state's parts."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value)
    for key, part in inner:
        yield from paths(part, (*path, key))


def changed(state, path, change):
    """A copy with one place changed."""
    copy = json.loads(json.dumps(state))
    node = copy
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1])
    return copy


def replace(value):
    def change(node, key):
        node[key] = value(node[key]) if callable(value) else value

    return change


def remove(node, key):
    del node[key]


def other(value):
    if type(value) is bool:
        return not value
    if type(value) is int:
        return value + 1
    return value + "x" if isinstance(value, str) else {"other": 1}


CHANGES = {
    "other": replace(other),
    "none": replace(lambda value: 0 if value is None else None),
    "negative": replace(-1_000_000),
    "huge": replace(2**70),
    "float": replace(0.5),
    "nan": replace(float("nan")),
    "list": replace([1, "a"]),
    "object": replace(lambda value: object()),
    "removed": remove,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("factor", [2, "auto"])
def test_a_state_changed_anywhere_is_refused(factor, change):
    state, _ = middle(factor=factor)
    with make(factor=factor) as buffer:
        for path in paths(state):
            if (path, change) == (("upstream",), "removed"):
                continue  # which is allowed
            damaged = changed(state, path, CHANGES[change])
            with pytest.raises(echobuf.StateError, match="`state`"):
                buffer.load_state_dict(damaged)
        assert buffer.stats().fresh == 0
        buffer.load_state_dict(state)


NO_STATES = [None, 0, "state", b"", [], {}, (), {"format": "echobuf-state"}, object()]


@pytest.mark.parametrize("state", NO_STATES, ids=stable_id)
def test_what_is_no_state_is_refused(state):
    refused(state, "`state`")


@pytest.mark.parametrize("more", [{"x": 1}, {"x": object()}, {1: 2}, {None: 0, "a": 1}])
@pytest.mark.parametrize("checksum", [None, 0, -1, "x"])
def test_a_state_with_something_more_is_refused(more, checksum):
    state = {**middle()[0], **more}
    if checksum is not None:
        state["checksum"] = checksum
    refused(state, "`state`")
    with make() as buffer, pytest.raises(echobuf.StateError):
        buffer.load_state_dict(
            {"format": "echobuf-state", "version": 1, **more, "checksum": checksum}
        )


OTHERS = {
    "batch_size": 3,
    "window": 16,
    "factor": 3,
    "seed": 4,
    "drop_last": True,
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("taken", ["start", "middle"])
def test_a_state_of_other_arguments_is_refused_and_says_which(name, taken):
    with make() as buffer:
        state = buffer.state_dict() if taken == "start" else middle()[0]
    refused(state, f"`{name}`.*{OTHERS[name]}", **{name: OTHERS[name]})


def test_a_state_of_another_spec_or_unit_or_limit_is_refused():
    state, _ = middle()
    for spec in ({**SPEC, "id": echobuf.Field((), "i4")}, SPEC["id"]):
        buffer = echobuf.EchoBuffer(spec, **KWARGS)
        with pytest.raises(echobuf.StateError, match="`spec`"):
            buffer.load_state_dict(state)
    auto, _ = middle(factor="auto")
    refused(auto, "`factor`.*auto", factor=2)
    with pytest.raises(echobuf.StateError, match="`max_factor`"):
        make(factor="auto", max_factor=5).load_state_dict(auto)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("factor", [2, 2.5, "auto"])
def test_an_upstream_that_ends_early_is_refused(factor, prefetch):
    state, _ = middle(factor=factor)
    for count in (0, 1):
        with make(factor=factor, prefetch=prefetch) as buffer:
            buffer.load_state_dict(state)
            start = state["fresh_offset"]
            buffer.put_batch(stack(range(start, start + count)))
            buffer.close()
            for _ in range(2):
                with pytest.raises(echobuf.StateError, match="`state`"):
                    buffer.next_batch(timeout=WAIT_S)


@pytest.mark.parametrize("end", ["close", "fail"])
def test_a_buffer_that_has_ended_refuses_a_state_and_keeps_its_end(end):
    state, _ = middle()
    with make() as buffer:
        buffer.close() if end == "close" else buffer.fail(OSError("gone"))
        with pytest.raises(echobuf.StateError, match="used or closed"):
            buffer.load_state_dict(state)
        error = StopIteration if end == "close" else echobuf.UpstreamError
        with pytest.raises(error):
            buffer.next_batch(timeout=WAIT_S)
        buffer.reset()
        buffer.load_state_dict(state)
