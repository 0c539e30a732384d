"""Designs for all page sizes in whole machines: shipped ones are what `machines fit` says; none translates wrongly."""

import importlib.util
import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from conftest import CHECKOUT
from reference import generate

from mmulab import engine
from mmulab.reproduce.mix.designs import tlb_set

ALL = ["4K", "2M", "1G"]
STEPS = 200
SEEDS = range(12)


def _script() -> ModuleType:
    path = CHECKOUT / "scripts" / "fitted_machines.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


FITTED = _script()


@pytest.mark.parametrize("wanted", FITTED.FILES, ids=lambda wanted: wanted.name)
def test_shipped_machines_are_what_fits(wanted: Any) -> None:
    assert (CHECKOUT / "machines" / f"{wanted.name}.toml").read_text("utf-8") == FITTED.text(wanted)
    room = dict.fromkeys((1, 2), 0.0)
    for name, sign in ((FITTED.BASELINE, 1), (wanted.name, -1)):
        found = engine.fit(name, None)
        for array, area in zip(found["tlb"], found["area"], strict=True):
            room[array["level"]] += sign * area["cells"]
    assert all(cells >= 0 for cells in room.values()), room


def _array(level: int, **more: Any) -> dict[str, Any]:
    shape = {"name": f"L{level}", "level": level, "side": "both", "entries": 4 * level, "ways": 2, "sizes": ALL}
    return shape | ({"hit_cycles": 6} if level == 2 else {}) | more


def _split(level: int, **more: Any) -> list[dict[str, Any]]:
    if level == 2:
        return [_array(2, sizes=ALL[:2], probe="serial", **more), _array(2, name="L2-1G", sizes=["1G"])]
    return [_array(1, name=f"L1-{size}", sizes=[size], **more) for size in ALL]


# Arrays so small that everything is evicted sooner or later.
DESIGNS: dict[str, list[dict[str, Any]]] = {
    "mix": [_array(n, design="mix", group=4 * n) for n in (1, 2)],
    "mix-merged": [_array(n, design="mix", group=4 * n, mix={"mirrors": "merged"}) for n in (1, 2)],
    "mix+colt": [_array(n, design="mix", group=4 * n, mix={"small_group": 4}) for n in (1, 2)],
    "mix, anywhere": [_array(n, design="mix", group=64, mix={"span": "anywhere", "extra_bits": 49}) for n in (1, 2)],
    "colt": [
        _array(1, name="L1-4K", sizes=["4K"], design="colt-sa", group=4),
        *_split(1)[1:],
        *_split(2, design="colt-sa", group=4),
    ],
    "colt++": [
        *_split(1, design="colt++", group=4),
        *_split(2, design="colt++", group=4),
    ],
    "zen": [_array(n, design="zen", group=4) for n in (1, 2)],
    "hash-rehash": [_array(n, probe="serial", predictor={"entries": 4}) for n in (1, 2)],
    "skew": [_array(n, design="skew", entries=12, ways=6, predictor={"entries": 4}) for n in (1, 2)],
    "split": [*_split(1), *_split(2)],
    "ideal": [_array(n) for n in (1, 2)],
}


@pytest.mark.parametrize("design", DESIGNS)
def test_no_design_translates_wrongly_whatever_happens(design: str, tmp_path: Path) -> None:
    """After every step of random programs under random kernels each array agrees with the tables, at both levels."""
    evicted = mirrored = 0
    for seed in SEEDS:
        random = Random(f"designs {seed}")
        machine, policy = generate.machine(random), generate.policy(random)
        # A global mapping that some processes lack is the program's mistake: what it leaves in TLBs is used by all.
        text = generate.Program(random, policy).text(STEPS).replace(" anon global", " anon")
        for name, content in (("machine.toml", machine), ("policy.toml", policy), ("trace.mmtx", text)):
            tmp_path.joinpath(name).write_text(content, encoding="utf-8")
        sets = (tlb_set(DESIGNS[design]), "tlb_rules.inclusion=none")
        job = engine.Job(str(tmp_path / "machine.toml"), str(tmp_path / "policy.toml"), sets)
        options = engine.Options(check="translations", unmapped="fault")
        result = engine.run(str(tmp_path / "trace.mmtx"), [job], options).results[0]
        assert result.ended in ("end", "out-of-memory"), (seed, result.ended_message)
        evicted += sum(a["evictions"] for a in result.counts["arrays"])
        mirrored += sum((a.get("mirroring") or {}).get("writes", 0) - a["fills"] for a in result.counts["arrays"])
    assert evicted > 300
    assert (mirrored > 0) == design.startswith("mix")
