"""mmulab: what address translation costs a real program, and which page sizes would pay.

The command line is in `mmulab.cli`, studies in `mmulab.study`, and `mmulab.engine` gives the Rust engine types::

    from mmulab import engine

    result = engine.run("gen:gups?footprint=64M", [engine.Job("skylake-e3-1240v5", "linux-4k")]).results[0]
    print(result.mpki("l1d"))
"""

from mmulab import _level

# Before the engine's first import.
_level.load()

from mmulab._core import Failure, UserError  # noqa: E402

__all__ = ["Failure", "UserError"]
