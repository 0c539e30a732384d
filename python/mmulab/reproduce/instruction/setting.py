"""The kernels that paper 2 compares, and the machines: each differs from another in what its name says alone."""

from dataclasses import dataclass

from mmulab import engine

SKYLAKE = "skylake-e3-1240v5"
# Programs as FreeBSD 11.2's linkers laid them out: segments one after another, 2 MB apart in the address space. So
# pages of code are aligned with the file (paper 2, Table V).
IMAGE: engine.Json = {"linker": "old", "max_page_size": "2M"}
# What compiled code grows by in the paper's Java virtual machine.
CODE_HEAP = "2M"
# Compiled code is code to its kernels (section V).
JIT = ("policy.freebsd.code.anonymous=true",)
ALL_CLUSTERS = 32
# Skylake's counter for the stall of fetches, on every machine under this name.
STALL = "itlb-stall"
_COUNTED = (f"perf.event=[{{name='{STALL}',counts='instruction-stall-cycles'}}]",)


@dataclass(frozen=True)
class Setting:
    """A kernel."""

    name: str
    policy: str
    sets: tuple[str, ...] = ()
    # Whether the Java virtual machine has compiled code in pieces of 2 MB (section V).
    with_grown_code: bool = False


@dataclass(frozen=True)
class Variant:
    """A machine, by what it changes of another."""

    name: str
    machine: str
    sets: tuple[str, ...] = ()

    def job(self, setting: Setting, sets: tuple[str, ...] = ()) -> engine.Job:
        """It under a kernel."""
        return engine.Job(self.machine, setting.policy, (*_COUNTED, *self.sets, *setting.sets, *sets))


STOCK = Setting("stock FreeBSD", "freebsd-super")
SMALL = Setting("4 KB code", "freebsd-code-4k")


def promoting(clusters: int, policy: str = "freebsd-code-1", name: str = "") -> Setting:
    """The kernel that promotes code from this number of clusters of 64 KB on."""
    threshold = f"policy.freebsd.code.threshold={clusters}"
    return Setting(name or f"threshold {clusters}", policy, (threshold,), with_grown_code=True)


# Figure 8, from left to right: always with the most aggressive promotion.
SHARED = ("policy.freebsd.code.share_tables=lowest",)
PROMOTED = Setting("no padding, no sharing", "freebsd-code-1")
PADDED = Setting("padding, no sharing", "freebsd-code-padded")
SHARING = Setting("no padding, sharing", "freebsd-code-1", SHARED)
BOTH = Setting("padding, sharing", "freebsd-code-padded", SHARED)
FIGURE_8 = (PROMOTED, PADDED, SHARING, BOTH)
# The paper's design allows tables above the lowest to be shared; the paper built the lowest (section VI).
ALL_LEVELS = Setting("padding, sharing of all levels", BOTH.policy, ("policy.freebsd.code.share_tables=all",))

REAL = Variant("Skylake", SKYLAKE)
# A Skylake with another second level each, as paper 2 has them (sections II and VII).
HASWELL = Variant("Haswell's STLB", "haswell-stlb")
IVY_BRIDGE = Variant("Ivy Bridge's STLB", "ivybridge-stlb")
ZEN = Variant("Zen+ (one ITLB)", "zenplus-2700x")
VARIANTS = (REAL, HASWELL, IVY_BRIDGE, ZEN)
