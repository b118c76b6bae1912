"""Why the calls of a buffer end without what was asked for, as exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from echobuf import _core, codes
from echobuf._engine.host import HostBackend
from echobuf.errors import DeviceError

if TYPE_CHECKING:
    from echobuf.cuda.backend import CudaBackend

# Codes of calls that a lost device ends.
_LOST = (_core.BROKEN, _core.CLOSED, _core.LEFT)


class Termination:
    """Exceptions for one buffer's codes, with upstream's error and the device's.

    Args:
        backend: where the buffer is.
    """

    def __init__(self, backend: HostBackend | CudaBackend) -> None:
        self._backend = backend
        self._upstream_error: BaseException | None = None
        self._past_error: BaseException | None = None  # of the epoch before
        # What has failed where nobody said so: the slots are borrowed no longer.
        self.cut_off: Callable[[], BaseException] | None = None

    def upstream_failed(self, error: BaseException) -> None:
        """Note upstream's error, before the core fails the epoch."""
        self._upstream_error = error

    def epoch_begins(self) -> None:
        """Return the core has begun another epoch, of which nothing has failed."""
        # In this order: a call that has just failed finds the error in either, also
        # after a second reset.
        if self._upstream_error is not None:
            self._past_error = self._upstream_error
        self._upstream_error = None

    def check(self, code: int) -> None:
        """Raise for a code that any call can end with; not for 0."""
        if code != 0:
            self._check_device(code)
            codes.check(code)

    def refuse_put(self, code: int, accepted: int) -> NoReturn:
        """Raise for a put that has ended after `accepted` examples."""
        try:
            self._check_device(code)
        except DeviceError as error:
            error.accepted = accepted
            raise
        codes.refuse_put(code, accepted, failed=self._upstream_error is not None)

    def end_next(self, code: int) -> NoReturn:
        """Raise for a draw that has ended without a batch."""
        if code == _core.NO_MEMORY:
            raise self._backend.out_of_memory()
        error = self._upstream_error
        if error is None:  # another thread has called `reset` meanwhile
            error = self._past_error
        if error is None and self.cut_off is not None:
            error = self.cut_off()
        self._check_device(code)
        codes.end_next(code, error)

    def _check_device(self, code: int) -> None:
        """Raise if the call was refused because the device is lost."""
        if code in _LOST and (lost := self._backend.why_lost()) is not None:
            raise lost
