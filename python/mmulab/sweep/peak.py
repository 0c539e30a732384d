"""The most memory that this process has had in use, as Linux counts it."""

from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
# Written to clear_refs, it sets the peak back to what is in use now (proc(5)).
_RESET = "5"


def reset_peak() -> None:
    """Begins anew where the system allows it; elsewhere the peak is that since the process began."""
    try:
        _CLEAR.write_text(_RESET)
    except OSError:
        return


def peak_bytes() -> int:
    """The peak in bytes; 0 if the system does not say."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
