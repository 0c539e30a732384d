"""Imported by each local worker when it starts: Ctrl-C is for the sweep, which ends its workers itself.

A terminal sends the signal to all processes of a command, and each worker would print a traceback.
"""

import signal
import threading

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
