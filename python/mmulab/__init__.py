"""mmulab: what address translation costs a real program, and which page sizes would pay.

The command line is in `mmulab.cli`, studies in `mmulab.study`, and `mmulab.engine` gives the Rust engine types::

    from mmulab import engine

    result = engine.run("gen:gups?footprint=64M", [engine.Job("skylake-e3-1240v5", "linux-4k")]).results[0]
    print(result.mpki("l1d"))
"""

from mmulab._core import Failure, UserError

__all__ = ["Failure", "UserError"]
