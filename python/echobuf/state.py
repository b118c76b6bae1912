"""Checkpoints of a buffer and of its upstream, as small dicts that JSON can hold."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from echobuf.arguments import BUFFER
from echobuf.errors import StateError
from echobuf.options import Options, options_of
from echobuf.plain import decode

UPSTREAM_KEY = "upstream"
ENTERED_KEY = "entered"

State = dict[str, Any]

_FORMAT = "echobuf-state"
_VERSION = 1
_NUMBERS = ("epoch", "fresh_offset")
_MOST = 2**63
_POSITION = ("epoch", "fresh_offset", "position", "arguments")
_OPTIONAL = ("base", "ranks", UPSTREAM_KEY, ENTERED_KEY)
_PARTS = {"position", "arguments", "ranks", UPSTREAM_KEY, ENTERED_KEY}
_TAKEN_BY = {
    "base": "an `EchoLoader`",
    "ranks": "an `echobuf.torch.EchoLoader` with `uneven`",
    UPSTREAM_KEY: "an `EchoLoader` whose upstream keeps a state",
    ENTERED_KEY: "an `EchoLoader` with workers and in_order=False",
}
_OR_WITHOUT = {
    UPSTREAM_KEY: ', or leave `state["upstream"]` out: upstream is read from its start'
}
_LEARNT = (
    "spec",
    "batch_size",
    "window",
    "transform",
    "transform_numbers",  # states of before lack it
)  # a loader may know them with its first item only


@dataclass(frozen=True)
class UpstreamState:
    """A checkpoint of upstream, between two items."""

    # Fresh examples that it had yielded in the epoch; None at the end of the epoch
    # before
    offset: int | None
    encoded: Any  # its state, and what belongs to it, as JSON holds it
    place: tuple[int, int] = (0, 1)  # the rank of the process and the number of ranks

    def sealed(self) -> dict[str, Any]:
        """Return the form that is kept, with a checksum of its own."""
        return {**self._body(), "checksum": self._checksum}

    def _body(self) -> dict[str, Any]:
        place = list(self.place)
        return {"offset": self.offset, "place": place, "state": self.encoded}

    @functools.cached_property
    def _checksum(self) -> int:
        text = json.dumps(self._body(), sort_keys=True, allow_nan=False)
        return zlib.crc32(text.encode())


def unseal_upstream(sealed: Any, most: int) -> UpstreamState:
    """Return the reverse of `UpstreamState.sealed`.

    Args:
        sealed: what stands in a loader's state.
        most: its offset at most.
    """
    try:
        found = UpstreamState(sealed["offset"], sealed["state"], tuple(sealed["place"]))
        sound = isinstance(sealed, Mapping) and sealed == found.sealed()
        sound = sound and 0 <= (found.offset or 0) <= most and len(found.place) == 2
        decode(found.encoded)
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise StateError(
            '`state["upstream"]` is damaged. Use a state that `state_dict()` returned, '
            "unchanged, or leave this key out: upstream is then read from its start."
        )
    return found


def arguments_of(
    options: Options,
    spec: str | None,
    transform: dict[str, list[str]] | None,
    transform_numbers: dict[str, list[int]] | None,
) -> State:
    """Return the arguments that the order of batches depends on.

    Args:
        options: the buffer's.
        spec: the spec in one line; None while it is not known.
        transform: its chains in words, by leaf; None while they are not known.
        transform_numbers: the numbers of its operations in random draws, by leaf: they
            are equal where one object is in several chains.
    """
    return {
        **options.in_state(),
        "spec": spec,
        "transform": transform,
        "transform_numbers": transform_numbers,
    }


def start_of(epoch: int) -> State:
    """Return the position at the start of an epoch."""
    return {"epoch": epoch, "fresh_offset": 0, "position": None}


def position_of(checkpoint: State) -> State:
    """Return the position that a checkpoint of the core stands for."""
    if checkpoint["epoch_done"]:
        return start_of(checkpoint["epoch"] + 1)
    position = {
        key: value
        for key, value in checkpoint.items()
        if key not in ("epoch", "fresh_offset", "epoch_done")
    }
    if "selection" in position:
        selection = position["selection"]
        marks = base64.b85encode(zlib.compress(selection["marks"])).decode()
        position["selection"] = {**selection, "marks": marks}
    return {
        "epoch": checkpoint["epoch"],
        "fresh_offset": checkpoint["fresh_offset"],
        "position": position if checkpoint["draws"] else None,
    }


def seal(arguments: State, position: State, **more: Any) -> State:
    """Return the state as the caller gets it, with a checksum.

    Args:
        arguments: what the order of batches depends on.
        position: in the epoch; with `base`, if its offset counts from an example other
            than the first; with `entered`, if items entered in another order than the
            sampler's; with `upstream`, if that has a state. It has a checksum of its
            own, so that it may be left out.
        more: what loaders add to it; None where there is nothing.
    """
    base = position.get("base", 0)
    entered, upstream = position.get(ENTERED_KEY), position.get(UPSTREAM_KEY)
    state = {
        "format": _FORMAT,
        "version": _VERSION,
        "epoch": position["epoch"],
        "fresh_offset": position["fresh_offset"] + base,
        "position": _written(position["position"]),
        "arguments": _written(arguments),
        "base": base,
        ENTERED_KEY: _written(None if entered is None else entered.sealed()),
        **{key: _written(value) for key, value in more.items()},
    }
    return {
        **state,
        "checksum": checksum_of(state),
        UPSTREAM_KEY: _written(None if upstream is None else upstream.sealed()),
    }


def _written(part: Any) -> str:
    """Return a part of a state as one text, "" for None.

    Checkpoints of torch.distributed take a state apart into its leaves, and load those
    that the state of a fresh object has: they must be the same ones at any time.
    """
    return "" if part is None else json.dumps(part, sort_keys=True, allow_nan=False)


def read_parts(state: Mapping[str, Any]) -> State:
    """Return a state with its parts read, and without those that are empty.

    States once had the parts themselves, in place of texts: these are as they were.
    """
    read = dict(state)
    for key in state.keys() & _PARTS:
        value = state[key]
        try:
            read[key] = json.loads(value or "null") if type(value) is str else value
        except ValueError:
            raise StateError(
                f"`state` is damaged: `{key}` is {_shorten(value)}; use a state that "
                "`state_dict()` returned, unchanged."
            ) from None
    gone = {key for key in _OPTIONAL if state.get(key) in ("", 0)}
    return {key: value for key, value in read.items() if key not in gone}


def unseal(state: Any, arguments: State, also: Collection[str] = ()) -> State:
    """Check a state and gives its position, and the arguments it was taken with.

    Args:
        state: what `seal` gave.
        arguments: those used here.
        also: what loaders may have added to it.
    """
    if not isinstance(state, Mapping) or state.get("format") != _FORMAT:
        raise StateError(
            f"`state` is {_shorten(state)}; it must be what `state_dict()` returned."
        )
    if state.get("version") != _VERSION:
        raise StateError(
            f"`state` has version {state.get('version')!r}; this version of echobuf "
            f"reads version {_VERSION}."
        )
    apart = ("checksum", UPSTREAM_KEY)
    checksum = checksum_of({key: state[key] for key in state if key not in apart})
    if checksum is None or checksum != state.get("checksum"):
        raise StateError(
            "`state` is damaged: its checksum does not fit. Use a state that "
            "`state_dict()` returned, unchanged."
        )
    state = read_parts(state)
    _check_parts(state)
    check_arguments(state["arguments"], arguments)
    position = {key: state[key] for key in _POSITION}
    _check_phase(position["position"], arguments["factor"])
    for key in state.keys() - {"format", "version", "checksum", *_POSITION}:
        if key not in also:
            raise StateError(
                f"`state` was taken by {_TAKEN_BY.get(key, 'another program')}; load "
                f"it there{_OR_WITHOUT.get(key, '')}."
            )
        position[key] = state[key]
    if UPSTREAM_KEY in position:
        offset = position["fresh_offset"]
        position[UPSTREAM_KEY] = unseal_upstream(position[UPSTREAM_KEY], offset)
    position["fresh_offset"] -= position.get("base", 0)
    return position


def _check_parts(body: State) -> None:
    """Raise `StateError` if a state has parts that no state has."""
    base = body.get("base", 0)
    for name, value in (*((each, body.get(each)) for each in _NUMBERS), ("base", base)):
        if type(value) is not int or not 0 <= value < _MOST:
            raise StateError(
                f"`state` is damaged: `{name}` is {_shorten(value)}; it must be an "
                "integer from 0 to 2**63 - 1."
            )
    if base > body["fresh_offset"]:
        raise StateError(
            f"`state` is damaged: `base` is {base}, beyond `fresh_offset`, "
            f"{body['fresh_offset']}."
        )
    for name, kinds in (("arguments", Mapping), ("position", (Mapping, type(None)))):
        if name not in body or not isinstance(body[name], kinds):
            raise StateError(
                f"`state` is damaged: `{name}` is {_shorten(body.get(name))}; use a "
                "state that `state_dict()` returned, unchanged."
            )


def check_arguments(theirs: State, ours: State) -> None:
    """Raise `StateError` if a state's arguments are not those that are used here."""
    _check_unit_of_size(theirs, ours)
    if theirs.get("reuse") is not None:
        raise StateError(
            f"`state` was taken with `reuse` {theirs['reuse']!r}, which is gone: "
            "echobuf leaves no examples out by their losses any more. Begin the epoch "
            "anew, with `reset(epoch)` or `set_epoch(epoch)`."
        )
    # Options that states have where they are given; ranks leave others of ours out.
    defaults = {
        name: row.default for name, row in options_of(BUFFER) if row.state == "given"
    }
    for name in [*ours, *(theirs.keys() & defaults.keys()) - ours.keys()]:
        own, other = (each.get(name, defaults.get(name)) for each in (ours, theirs))
        if name in _LEARNT and (own is None or other is None):
            continue
        if other != own and name == "transform_numbers":
            raise StateError(
                "`state` was taken with a `transform` of the same operations, but "
                "other ones of them are the same object: numbered by object they are "
                f"{other!r} in the state, and {own!r} here. Put one object into the "
                "chains of several leaves where the state's transform did, and only "
                "there."
            )
        if other != own:
            raise StateError(
                f"`state` was taken with `{name}` {other!r}, but here it is {own!r}; "
                "make the buffer with the same arguments."
            )


def _check_unit_of_size(theirs: State, ours: State) -> None:
    """Raise `StateError` if sizes are in rows and differ, or in one of both alone."""
    rows = [arguments.get("max_rows") for arguments in (theirs, ours)]
    if rows[0] == rows[1]:
        return
    taken, here = (
        f"`batch_size` {arguments.get('batch_size')}"
        if arguments.get("max_rows") is None
        else f"`max_rows` {arguments['max_rows']}"
        for arguments in (theirs, ours)
    )
    raise StateError(
        f"`state` was taken with {taken}, but here batches have {here}; make the "
        "buffer with the same arguments."
    )


def _check_phase(place: Any, factor: str) -> None:
    """Raise `StateError` if a place within an epoch lacks its schedule's phase."""
    if "/" in factor and isinstance(place, Mapping) and "phase" not in place:
        raise StateError(
            "`state` was taken in the middle of an epoch by a version of echobuf that "
            f"gave the same examples the extra use of `factor` {factor} in every "
            "epoch; this one cannot go on there. Begin the epoch anew, with "
            "`reset(epoch)` or `set_epoch(epoch)`."
        )


def as_checkpoint(position: State) -> State | None:
    """Return the position as the core takes it; None at the start of an epoch."""
    if position["position"] is None:
        return None
    checkpoint = {
        "epoch": position["epoch"],
        "fresh_offset": position["fresh_offset"],
        **position["position"],
    }
    if "selection" in checkpoint:
        checkpoint["selection"] = _read_selection(checkpoint["selection"])
    return checkpoint


def _read_selection(selection: State) -> State:
    """Return which examples a pass leaves out, whose marks are text in a state."""
    try:
        marks = zlib.decompress(base64.b85decode(selection["marks"]))
        return {**selection, "marks": marks}
    except (zlib.error, ValueError, AttributeError, TypeError, KeyError) as error:
        raise StateError(f"`state` is damaged: {error}.") from None


def checksum_of(state: Mapping[str, Any]) -> int | None:
    """Return the checksum of a state without one; None if `json` cannot keep it."""
    try:
        text = json.dumps(state, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return zlib.crc32(text.encode())


def _shorten(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[:most] + "..."
