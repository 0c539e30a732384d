"""Which machines a study has if none are named: this computer's kind first, then others of the instruction set."""

from mmulab import UserError, engine
from mmulab.probe import system
from mmulab.probe.nearest import nearest

# By instruction set: processors that users have, of each vendor. There is no RISC-V machine: its programs run on
# the x86 ones, with a warning.
BY_ISA = {
    "x86-64": ("skylake-e3-1240v5", "zen3-5900x", "zen4-epyc9004", "sapphirerapids-xeon8480"),
    "aarch64": ("neoverse-n1", "neoverse-v1-graviton3", "neoverse-v2-graviton4", "ampereone-a192"),
}
MOST = 4


def machines(isa: str | None) -> tuple[str, ...]:
    """The machines for a program; without an instruction set, those for this computer's programs."""
    here = system.processor()
    known = BY_ISA.get(isa or here["isa"], BY_ISA["x86-64"])
    if here["isa"] != (isa or here["isa"]):
        return known
    name, _ = nearest(here, system.caches())
    return tuple(dict.fromkeys((name, *known)))[:MOST]


def isa_of_trace(trace: str) -> str | None:
    """What a trace's program was compiled for; None where nothing says."""
    try:
        found = engine.run(trace, [engine.Job("hashed", "linux-4k")], engine.Options(max_instructions=1))
    except UserError:
        # The study says what is wrong with it.
        return None
    isa = found.results[0].trace.get("isa")
    return str(isa) if isa else None
