"""Text for exceptions that cannot be printed."""

import pytest

from echobuf.errors import describe, message


class Unprintable(ValueError):
    def __str__(self):
        raise RuntimeError("no text")

    def __repr__(self):
        raise SystemExit(3)


class NoRepr(ValueError):
    def __repr__(self):
        return 3


class BadName(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class Nameless(Unprintable, metaclass=BadName):
    pass


class Text(str):
    def encode(self, *_):
        raise RuntimeError("no bytes")


class SubclassedText(ValueError):
    def __str__(self):
        return Text("said\udcff")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "described", "said"),
    [
        (ValueError("why"), "ValueError('why')", "why"),
        (ValueError(), "ValueError()", "ValueError()"),
        (ValueError("\ud800 \U0001f600"), "ValueError('\\ud800 😀')", "\\ud800 😀"),
        (Unprintable("why"), "Unprintable", "Unprintable"),
        (NoRepr("why"), "NoRepr: why", "why"),
        (Nameless(), "an exception", "an exception"),
        (SubclassedText(), "said\\udcff", "said\\udcff"),
    ],
)
def test_any_exception_has_a_text(error, described, said):
    assert describe(error) == described
    assert message(error) == said
    assert type(describe(error)) is type(message(error)) is str
    (describe(error) + message(error)).encode()


def test_ctrl_c_is_passed_on():
    class Interrupted(ValueError):
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        describe(Interrupted())
