"""SIGTERM and SIGHUP end a command as Ctrl-C does: what there is is put away, and the exit code says so."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# `kill`, `timeout` and shutdown send the first; a terminal that goes away sends the second.
STOPPING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """While it lasts, these signals raise KeyboardInterrupt. One that is ignored (by nohup) stays ignored."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may say what signals do.
        yield
        return
    handled = [each for each in STOPPING if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, interrupt) for each in handled}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
