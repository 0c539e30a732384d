"""Whether this guest's memory comes from its host only when it is used, which makes first accesses slow.

A kernel with virtio's free page reporting tells the host which pages are free, and the host takes their memory back
(Linux, mm/page_reporting.c; virtio 1.2, section 5.5.3). A program then waits for the host at its first accesses. What
that does to times is in docs/results/forecast-causes.md.
"""

from pathlib import Path

_DEVICES = Path("/sys/bus/virtio/devices")
# The memory balloon's number, and the bit of its features that says so (virtio 1.2, sections 5 and 5.5.3).
_BALLOON = 5
_REPORTING = 5


def reports_free_pages(devices: Path = _DEVICES) -> bool:
    """Whether a balloon of this guest has agreed to free page reporting."""
    return any(_reports(device) for device in devices.glob("*"))


def _reports(device: Path) -> bool:
    try:
        number = int((device / "device").read_text(encoding="ascii"), 16)
        features = (device / "features").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return False
    # A character for each feature, the first bit first.
    return number == _BALLOON and features[_REPORTING : _REPORTING + 1] == "1"
