"""Every error that echobuf raises."""


class EchobufError(Exception):
    """The base of all errors of echobuf."""


class SpecError(EchobufError, ValueError):
    """A leaf has another structure, shape or dtype than the spec."""


class OptionError(EchobufError, ValueError):
    """An argument is out of range."""


class ClosedError(EchobufError, RuntimeError):
    """A put after `close()`, or any call after leaving the context.

    Attributes:
        accepted: for `put_batch`, how many examples were put before the buffer closed.
    """

    accepted: int = 0


class UpstreamError(EchobufError, RuntimeError):
    """Upstream raised; the original is the `__cause__`."""


class StateError(EchobufError, ValueError):
    """A state that does not fit these arguments, or is damaged."""


class ItemError(UpstreamError, SpecError):
    """Upstream yielded something that does not fit its first item."""


class UpstreamStateError(UpstreamError, StateError):
    """Upstream does not take the state that it is said to have been in."""


class StepError(EchobufError, RuntimeError):
    """The training step raised, or does nothing that can be timed."""


class CapacityError(EchobufError, MemoryError):
    """The buffer would not fit `max_bytes` or the device."""


class DeviceError(EchobufError, RuntimeError):
    """No such device, no driver, no CuPy, or a device that was lost.

    Attributes:
        accepted: for `put_batch`, how many examples were put before that.
    """

    accepted: int = 0


class MissingPackageError(EchobufError, ImportError):
    """A package is not installed that only what was asked for needs."""


class ForkError(EchobufError, RuntimeError):
    """A buffer was used in a forked child."""
