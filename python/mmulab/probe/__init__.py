"""This computer described by timing: which curves are measured, what they show, and the machine file made of it.

`plan` measures, `system` says where, `machine` writes the machine file, `walks` lets the simulator run its chases. The
timing itself is `crates/host`.
"""

from mmulab.probe.machine import Description, described
from mmulab.probe.plan import Effort, again, figures, glance, joined, run
from mmulab.probe.system import describe

__all__ = ["Description", "Effort", "again", "describe", "described", "figures", "glance", "joined", "run"]
