"""The table of options: every keyword argument of buffers and loaders, a row each."""

from __future__ import annotations

from echobuf.arguments import (
    Check,
    Differs,
    Option,
    anything,
    boolean,
    check_device,
    check_factor,
    choice,
    integer,
    optional,
    read_form,
    read_size,
    read_transform,
)

MAX_WINDOW = 2**31 - 1  # records: a place in a pass is a 32-bit number
_MOST = 2**63 - 1


class OptionTable:
    """The rows, in the order of signatures."""

    batch_size = Option(
        Check("an int >= 1, or None", read_size),
        "int | None",
        None,
        core="batch_size",
        state="always",
        doc='examples in a batch; left out with `unit="batch"`.',
        differs={
            "loaders": Differs(
                more="With `batched=True` it is by default that of the first batch."
            )
        },
    )
    window = Option(
        integer(1),
        "int",
        core="window",
        state="always",
        doc='examples (batches with `unit="batch"`) that one shuffled pass covers; at '
        "least `batch_size` and `factor`.",
        differs={
            "loaders": Differs(
                "int | None",
                None,
                more="Left out, it is 32 batches, rounded up to a multiple of "
                "ceil(factor) batches.",
            )
        },
    )
    factor = Option(
        Check("a number >= 1, or 'auto'", lambda _, factor: check_factor(factor)),
        "Factor",
        2,
        core="factor",
        to_core=lambda ratio: ratio and (ratio.numerator, ratio.denominator),
        state="always",
        to_state=lambda ratio, _: "auto" if ratio is None else str(ratio),
        doc="how many times each fresh example is served: a number >= 1, or "
        '"auto", which echoes only while upstream is behind.',
        differs={
            "buffer": Differs(
                more="With a fraction such as 2.5 it is floor(factor) or ceil(factor) "
                "times, other examples get the extra use in each epoch, and over ten "
                "epochs each example's mean is within 0.2 of it."
            ),
            "loaders": Differs(
                default="auto",
                more="A fraction such as 2.5 gives other examples the extra use in "
                "each epoch, and `len(loader)` is that of the epoch that is running, "
                "or comes next; `batch_size` is then at most floor(factor) * "
                "(window // ceil(factor)).",
            ),
        },
    )
    max_factor = Option(
        integer(1, 2**31 - 1),
        "int",
        8,
        core="max_factor",
        state="always",
        to_state=lambda most, options: most if options.factor is None else None,
        doc='the most that "auto" serves an example.',
    )
    unit = Option(
        choice("example", "batch"),
        "Unit",
        "example",
        state="always",
        doc='"example", or "batch" to echo whole batches as they are.',
    )
    batched = Option(
        optional(boolean),
        "bool | None",
        None,
        has=("loaders",),
        doc="whether upstream yields batches (examples stacked on axis 0). By default "
        'True with `unit="batch"`, for a DataLoader that makes batches, and for Ray.',
    )
    length = Option(
        optional(integer(0)),
        "int | None",
        None,
        has=("loaders",),
        doc='how many examples (batches with `unit="batch"`) upstream yields, where it '
        "does not say; for `len(loader)`.",
    )
    overlap_epochs = Option(
        boolean,
        "bool",
        False,
        has=("loaders",),
        doc="begin the next epoch's upstream as soon as all examples of this one have "
        "entered the window, so that short epochs do not pay for filling and draining "
        "it. `iter(upstream)` and its first `next` then run inside a `next` of this "
        "epoch; what is set between epochs (a sampler's epoch) comes too late for "
        "them; and one epoch more is begun than is used.",
    )
    carry = Option(
        boolean,
        "bool",
        True,
        has=("loaders",),
        doc="leaves of examples that are no arrays (strings, None, any objects) come "
        "back in batches as lists of the same objects, one an example. False refuses "
        "such examples.",
    )
    sampler = Option(
        anything("an iterable of ints, or None"),
        "Iterable[int] | None",
        None,
        has=("loaders",),
        doc="for a map-style `upstream` (`__getitem__`, `__len__`): the indices of an "
        "epoch's examples, in order, iterated anew in each epoch.",
    )
    num_workers = Option(
        integer(0, 1024),
        "int",
        0,
        has=("loaders",),
        doc="processes that make examples of a map-style `upstream` and write them "
        "straight into the ring, in shared memory. The order is the sampler's whatever "
        "their number. 0: examples are made on a thread of this process.",
    )
    in_order = Option(
        boolean,
        "bool",
        True,
        has=("loaders",),
        doc="False lets examples of workers enter the window as they arrive, so that "
        "one that takes long holds up no other. The order of batches then depends on "
        "timing; a state goes on exactly with what had entered.",
    )
    multiprocessing_context = Option(
        anything("'spawn', 'forkserver', such a context, or None"),
        "Context",
        None,
        has=("loaders",),
        doc='how they are started: "spawn" (the default), "forkserver", or such a '
        "context.",
    )
    worker_init_fn = Option(
        anything("a function of the worker's number, or None"),
        "Callable[[int], Any] | None",
        None,
        has=("loaders",),
        doc="called in each with its number, before its first example.",
    )
    max_restarts = Option(
        integer(0, 2**31 - 1),
        "int",
        3,
        has=("loaders",),
        doc="workers that may die in an epoch and be started again, with the examples "
        "that they had not finished; one more is an `UpstreamError`.",
    )
    device = Option(
        Check("'cpu', 'cuda' or 'cuda:N'", lambda _, device: check_device(device)),
        "str",
        "cpu",
        doc='where the window is: "cpu", "cuda" (the current device) or "cuda:N".',
        differs={
            "buffer": Differs(
                more="Batches are NumPy arrays on the CPU and CuPy arrays on a CUDA "
                "device."
            ),
            "torch": Differs(
                "str | torch.device",
                doc='where the window is, and the tensors of batches: "cpu", "cuda" '
                '(the current device), "cuda:N", or such a `torch.device`.',
            ),
            "jax": Differs(
                "str | jax.Device | None",
                doc='"cpu", "cuda", "cuda:N", or a `jax.Device` of this process.',
            ),
        },
    )
    seed = Option(
        integer(0, 2**64 - 1),
        "int",
        0,
        core="seed",
        state="always",
        doc="with it, the order of fresh examples, `window` and `factor`, the order of "
        "draws is fixed (an int from 0 to 2**64 - 1).",
    )
    transform = Option(
        Check("a mapping from leaves to lists of operations, or None", read_transform),
        "Any",
        None,
        state="always",
        to_state=lambda _, options: None,  # until its chains are known
        doc="a mapping from leaves to lists of operations of `echobuf.transforms`, "
        "which run inside the draw: each echo is augmented anew. It says what batches "
        "are made of: docs/transforms.md.",
    )
    prefetch = Option(
        integer(0, 2**20),
        "int",
        0,
        core="prefetch",
        doc="batches that a native thread assembles ahead; on a CUDA device, where "
        "examples are uploaded ahead anyhow, it does nothing.",
    )
    drop_last = Option(
        boolean,
        "bool",
        False,
        core="drop_last",
        state="always",
        doc="leave out a last batch that is shorter than `batch_size`.",
    )
    max_bytes = Option(
        optional(integer(0)),
        "int | None",
        None,
        doc="the most memory that the buffer may take on its device: its ring, batches "
        "made ahead, and batch memory kept for the next batch. Batches that you hold "
        "are yours.",
    )
    payload_bytes = Option(
        optional(integer(1, _MOST)),
        "int | None",
        None,
        core="payload_bytes",
        state="given",
        for_rows=True,
        takes_memory=True,
        doc="for a spec with ragged leaves: the most bytes that these take in the "
        "window, all of them together, without padding. Left out, "
        "`window * max_length` rows, for each example of a whole batch. An example (a "
        'whole batch with `unit="batch"`) may have as many bytes as a segment\'s '
        "share, `payload_bytes // ceil(factor)`.",
        differs={
            "loaders": Differs(
                doc="makes leaves ragged whose length on axis 0 varies: the most bytes "
                "that these take in the window, all of them together, without padding. "
                'An example (a whole batch with `unit="batch"`) may have as many as a '
                "segment's share, `payload_bytes // ceil(factor)`."
            )
        },
    )
    ragged = Option(
        Check("'packed' or 'padded'", read_form),
        "RaggedForm",
        "packed",
        core="form",
        for_rows=True,
        doc='the form of ragged leaves in batches: "packed" (the default) for '
        '`echobuf.Ragged`, "padded" for `echobuf.Padded`.',
        differs={
            "loaders": Differs(
                "Any",
                None,
                more="Which leaves are ragged is seen from the first items; or it is "
                "said, in a pytree like an example with the form at ragged leaves and "
                "None at the others.",
            ),
            "torch": Differs(
                more='In torch also "nested": nested tensors with the layout '
                "`torch.jagged`, over the same memory."
            ),
        },
    )
    pad_value = Option(
        anything("a number, or a pytree of numbers"),
        "Any",
        0,
        for_rows=True,
        doc="fills up padding: a number that the dtypes hold, or a pytree like an "
        "example with a number for each ragged leaf.",
    )
    pad_to = Option(
        optional(integer(1, _MOST)),
        "int | None",
        None,
        core="pad_to",
        for_rows=True,
        takes_memory=True,
        doc="makes the length of padded arrays, or the rows of packed ones, a multiple "
        "of it.",
    )
    max_rows = Option(
        optional(integer(1, _MOST)),
        "int | None",
        None,
        core="max_rows",
        state="given",
        for_rows=True,
        takes_memory=True,
        doc="in place of `batch_size`: a batch is as many draws as have at most so "
        "many rows in each ragged leaf, with padding where they are padded; at least "
        "one draw, at most `window`.",
    )
    pack_to = Option(
        optional(integer(1, 2**31 - 1)),
        "int | None",
        None,
        core="pack_to",
        state="given",
        for_rows=True,
        takes_memory=True,
        doc="packs whole examples into rows of this length, in the order of the draws: "
        "each into the first of the 64 rows begun last that has room for it, else into "
        "a new one. A batch is `batch_size` rows, a leaf an `echobuf.Packed`; all "
        "leaves are ragged, and of one length in an example.",
    )
    overlong = Option(
        choice("error", "cut"),
        'Literal["error", "cut"]',
        "error",
        core="cut",
        to_core=lambda overlong: overlong == "cut",
        state="given",
        for_rows=True,
        doc='"error" refuses examples longer than `pack_to`, "cut" cuts them.',
    )
    with_info = Option(
        boolean,
        "bool",
        False,
        doc="each batch is a tuple `(batch, info)`, where `info`, a `BatchInfo`, says "
        "which fresh examples it holds, and which use of them this is.",
    )
    max_staleness = Option(
        optional(integer(0, _MOST)),
        "int | None",
        None,
        has=("buffer",),
        core="max_staleness",
        state="given",
        doc="once an example was put with version v, examples with versions below v - "
        "`max_staleness` are drawn no more. With this, batches are drawn when they are "
        "asked for: `prefetch` does nothing.",
    )
    uneven = Option(
        choice("drop", "pad", None),
        'Literal["drop", "pad"] | None',
        None,
        has=("ranks",),
        doc='"drop": an epoch ends on all ranks with the one that ends first, and what '
        'the others have left is not served; "pad": with the one that ends last, and '
        "the others serve copies of their last batch. None: ranks know nothing of each "
        "other.",
    )
    group = Option(
        anything("a process group, or None"),
        "ProcessGroup | None",
        None,
        has=("ranks",),
        doc="the process group of the ranks; by default all of them.",
    )
    ahead = Option(
        integer(1, 1024),
        "int",
        4,
        has=("ranks",),
        doc="with `uneven`, batches that a rank draws ahead of those handed out.",
    )
    sharding = Option(
        anything("a `jax.sharding.Sharding`, a pytree of them, or None"),
        "Any",
        None,
        has=("jax",),
        doc="makes global arrays of the batches of all processes "
        "(`jax.make_array_from_process_local_data`): a `jax.sharding.Sharding`, or a "
        "pytree of them that is a prefix of a batch. Each process has a loader of its "
        "own, over its share of the examples; `batch_size` is what one process brings.",
    )
