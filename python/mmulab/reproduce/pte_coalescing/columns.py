"""The thirteen columns of paper 1's tables: whose binary, on which processor, under which memory manager."""

from collections.abc import Sequence
from dataclasses import dataclass

from mmulab.engine import Job

ZEN3, ZEN_PLUS = "zen3-5900x", "zenplus-2700x"


@dataclass(frozen=True)
class Column:
    """One column. `key` is short for it: `F5:super` is the FreeBSD binary on the 5900X with superpages."""

    group: str
    config: str
    machine: str
    policy: str
    os: str

    @property
    def key(self) -> str:
        """Group and configuration."""
        return f"{self.group}:{self.config}"

    @property
    def is_freebsd_binary(self) -> bool:
        """Whether the program was built for FreeBSD."""
        return self.group in ("F5", "F2")

    def job(self, sets: Sequence[str]) -> Job:
        """What is run for it."""
        return Job(self.machine, self.policy, tuple(sets))


GROUPS = {
    "LL": "Linux binary, Linux, 5900X",
    "LF": "Linux binary, FreeBSD, 5900X",
    "F5": "FreeBSD binary, FreeBSD, 5900X",
    "F2": "FreeBSD binary, FreeBSD, 2700X",
}

COLUMNS = (
    Column("LL", "nothp", ZEN3, "linux-4k", "Linux"),
    # Transparent huge pages as paper 1, section 2.1 describes them: at the fault, and by khugepaged.
    Column("LL", "thp", ZEN3, "linux-thp-khugepaged", "Linux"),
    *(Column("LF", config, ZEN3, f"freebsd-{config}", "FreeBSD") for config in ("noresv", "reserv", "super")),
    *(Column("F5", config, ZEN3, f"freebsd-{config}", "FreeBSD") for config in ("noresv", "reserv", "super", "nomdv")),
    *(
        Column("F2", config, ZEN_PLUS, f"freebsd-{config}", "FreeBSD")
        for config in ("noresv", "reserv", "super", "nomdv")
    ),
)
# What cycles are shares of (paper 1, section 5).
BASELINE = "F5:super"
