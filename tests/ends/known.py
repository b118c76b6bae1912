"""Cells that have failed once, each with the seed with which it did."""

KNOWN: tuple[tuple[str, int], ...] = (
    ("thread/odd_repr/first", 1),
    ("server/odd_surrogates/first", 1),
    ("server/odd_long/first", 1),
    ("server_workers/odd_repr/first", 1),
    ("server_workers/raises/ahead", 3),  # slots that no worker had written were served
    ("server_workers/odd_long/resumed", 3),  # of another epoch
    ("server/files/first", 1),
    ("server_workers/disk/first", 6),  # a descriptor, where a worker cannot start
    ("server/sigkill/first", 1),  # a join that Ctrl-C cuts off is no end of a thread
    ("thread/ctrl_c/first", 2),  # while an epoch begins
    ("server_workers/sigterm/first", 739945),  # as its worker started
    ("workers/hangs/ahead", 6),  # at the exit, for a lock that a stopped thread had
)
