"""The arguments for ragged leaves, checked as far as they can be without a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from echobuf.arguments import check_int
from echobuf.errors import OptionError

RaggedForm: TypeAlias = Literal["packed", "padded"]


@dataclass(frozen=True)
class RaggedOptions:
    """The arguments for ragged leaves, checked as far as they can be without a spec.

    Attributes:
        form: "packed" or "padded".
        payload_bytes: the bytes of ragged leaves in the window; None for no limit.
        pad_value: a number, or a pytree of them like the spec.
        pad_to: lengths of batches are multiples of it.
        max_rows: the most rows of a batch, in place of a number of examples.
        pack_to: the length of rows that whole examples are packed into.
        cuts: longer examples are cut to `pack_to`.
        only_windows_pad: `pad_value` is given, and no argument makes padding.
        given: an argument that makes sense with ragged leaves alone, and its value, as
            `payload_bytes` is 1000; empty if there is none.
    """

    form: str = "packed"
    payload_bytes: int | None = None
    pad_value: Any = 0
    pad_to: int = 1
    max_rows: int | None = None
    pack_to: int | None = None
    cuts: bool = False
    only_windows_pad: bool = False
    given: str = ""


def check_ragged(
    *,
    payload_bytes: Any,
    ragged: Any,
    pad_value: Any,
    pad_to: Any,
    max_rows: Any,
    pack_to: Any,
    overlong: Any,
) -> RaggedOptions:
    """Check the arguments for ragged leaves; `ragged` may be None for "packed".

    Raises:
        OptionError: an argument is out of range; the message names it.
    """
    if ragged == "nested":
        raise OptionError(
            "`ragged` is 'nested'; nested tensors are batches of "
            "`echobuf.torch.EchoLoader`. Here it must be 'packed' or 'padded'."
        )
    if not isinstance(ragged, str | None) or ragged not in ("packed", "padded", None):
        raise OptionError(f"`ragged` is {ragged!r}; it must be 'packed' or 'padded'.")
    most = 2**63 - 1
    limits = {"payload_bytes": payload_bytes, "pad_to": pad_to, "max_rows": max_rows}
    checked = {
        name: None if value is None else check_int(name, value, 1, most)
        for name, value in limits.items()
    }
    rows = None if pack_to is None else check_int("pack_to", pack_to, 1, 2**31 - 1)
    cuts = _check_packing(rows, overlong, ragged, checked)
    pads = not (isinstance(pad_value, int) and pad_value == 0)
    given = {**checked, "pad_value": pad_value if pads else None}
    given["ragged"] = "padded" if ragged == "padded" else None
    given["pack_to"] = rows
    return RaggedOptions(
        form=ragged or "packed",
        payload_bytes=checked["payload_bytes"],
        pad_value=pad_value,
        pad_to=checked["pad_to"] or 1,
        max_rows=checked["max_rows"],
        pack_to=rows,
        cuts=cuts,
        only_windows_pad=(
            pads and ragged != "padded" and pad_to is None and rows is None
        ),
        given=next(
            (f"`{name}` is {one!r}" for name, one in given.items() if one is not None),
            "",
        ),
    )


def _check_packing(
    pack_to: int | None, overlong: Any, ragged: Any, beside: Mapping[str, int | None]
) -> bool:
    """Return True if examples longer than `pack_to` are cut.

    Raises:
        OptionError: `overlong` is unknown, or other arguments say another form.
    """
    if not isinstance(overlong, str) or overlong not in ("error", "cut"):
        raise OptionError(f"`overlong` is {overlong!r}; it must be 'error' or 'cut'.")
    if pack_to is None:
        if overlong == "cut":
            raise OptionError(
                "`overlong` is 'cut', but `pack_to` is None; leave `overlong` out, or "
                "give `pack_to`, the length that examples are cut to."
            )
        return False
    if ragged == "padded":
        raise OptionError(
            f"`pack_to` is {pack_to} and `ragged` is 'padded'; leave one out: with "
            "`pack_to` whole examples share rows, and batches are `echobuf.Packed`."
        )
    for name in ("pad_to", "max_rows"):
        if beside[name] is not None:
            raise OptionError(
                f"`{name}` is {beside[name]} and `pack_to` is {pack_to}; leave "
                f"`{name}` out: a batch is `batch_size` rows of `pack_to` values."
            )
    return overlong == "cut"
