"""Signals that end a sweep, noted as well as raised.

The engine looks for signals while it runs, and drops one that arrives just when a run ends. Over many short runs, a
Ctrl-C would then have no effect.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from mmulab.stopping import STOPPING


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """While it lasts, gives whether one of these signals has arrived. What they do otherwise stays the same."""
    arrived: list[int] = []

    def noting(handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
        def note(number: int, frame: FrameType | None) -> None:
            arrived.append(number)
            handler(number, frame)

        return note

    before = {}
    # Only the main thread may say what signals do.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *STOPPING):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, noting(handler))
    try:
        yield lambda: bool(arrived)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
