"""States with their parts as dicts, as they once were; they load like any other."""

from echobuf.state import UPSTREAM_KEY, checksum_of, read_parts


def opened(state):
    """The state with dicts in place of texts, and without empty parts."""
    return resealed(read_parts(state))


def resealed(state):
    """The state with the checksum that it ought to have."""
    apart = ("checksum", UPSTREAM_KEY)
    body = {key: value for key, value in state.items() if key not in apart}
    return {**state, "checksum": checksum_of(body)}
