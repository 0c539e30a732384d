"""Coalescing on a real program: proven on the way, the same but for what misses, whichever the design."""

import json
from functools import cache
from typing import Any

import pytest
from conftest import CHECKOUT, Cli

from mmulab import engine

COMPILER = str(CHECKOUT / "tests" / "data" / "cc1-small.mmt")
# By name, what makes the data side of zen3-5900x so.
DESIGNS = {
    "zen of 4": (),
    "zen of 8": tuple(f"tlb.{a}.group=8" for a in ("L1-DTLB", "L2-DTLB")),
    "colt-sa": tuple(f"tlb.{a}.{k}" for a in ("L1-DTLB", "L2-DTLB") for k in ("design=colt-sa", "group=8")),
    "clustered": tuple(f"tlb.{a}.{k}" for a in ("L1-DTLB", "L2-DTLB") for k in ("design=clustered", "group=4")),
    "colt-fa over zen": ("tlb.L1-DTLB.design=colt-fa", "tlb.L1-DTLB.group=64"),
}
Json = dict[str, Any]


def run(sets: tuple[str, ...], policy: str, check: str | None = None, machine: str = "zen3-5900x") -> Json:
    """The recording of a compiler, whole."""
    return engine.run(COMPILER, [engine.Job(machine, policy, sets)], engine.Options(check=check)).results[0].data


@cache
def plain_run(policy: str) -> Json:
    """Without any coalescing: what all designs are held against."""
    return run(("tlb_rules.coalescing=none",), policy)


def without_tlbs(result: Json) -> Json:
    """What no TLB can change."""
    counts = result["counts"]
    keys = ("instructions", "references", "fetches", "reads", "writes", "segfaults", "kernel", "memory")
    return {key: counts[key] for key in keys}


@pytest.mark.parametrize("policy", ["linux-4k", "linux-thp"])
@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_is_transparent_to_a_real_program(name: str, policy: str) -> None:
    checked = run(DESIGNS[name], policy, "translations")
    assert checked["complete"], checked["ended"]
    plain = plain_run(policy)
    assert without_tlbs(checked) == without_tlbs(plain)
    # Few pages of this program lie eight in a row; nothing is lost by looking.
    for side, is_less in (("l1i", True), ("l1d", name != "zen of 8")):
        on, off = (r["counts"]["tlb"][side]["misses"] for r in (checked, plain))
        assert on < off if is_less else on == off


def test_the_check_changes_no_figure() -> None:
    for machine in ("zenplus-2700x", "skylake-e3-1240v5"):
        checked, plain = (run((), "linux-thp", check, machine) for check in ("translations", None))
        assert (checked["counts"], checked["model"]) == (plain["counts"], plain["model"])


@pytest.mark.parametrize(("rule", "sides"), [("both", "id"), ("data", "d"), ("instruction", "i"), ("none", "")])
def test_coalescing_is_turned_off_by_side(rule: str, sides: str) -> None:
    result = run((f"tlb_rules.coalescing={rule}",), "linux-4k")
    groups = {a["name"][3].lower() for a in result["counts"]["arrays"] if "16K" in a["hits_by_size"]}
    assert groups == set(sides)


def test_impossible_groups_are_refused_on_the_command_line(cli: Cli) -> None:
    for sets, message in (
        (("tlb.L1-DTLB.group=3",), "tlb.L1-DTLB: group is 3: zen coalesces 4 or 8 pages"),
        (("tlb.L1-DTLB.design=colt-fa",), "the longest run of colt-fa is 8 to 1024 pages"),
        (("tlb.L1-DTLB.design=plain",), "a plain array coalesces nothing"),
        (("tlb.L2-DTLB.design=tps",), "design tps is fully associative"),
        (("tlb.L1-DTLB.desing=zen",), "design"),
    ):
        assign = [word for one in sets for word in ("--set", one)]
        ran = cli("run", "zen3-5900x", "--trace", "gen:gups?updates=10", *assign)
        assert ran.code == 2
        assert message in " ".join(ran.err.split())


def test_explain_takes_the_check_too(cli: Cli) -> None:
    ask = ("explain", "zen3-5900x", "--trace", "gen:gups?footprint=1M&updates=500")
    checked, plain = cli(*ask, "--check", "translations"), cli(*ask)
    assert checked.code == 0, checked.err
    assert checked.out == plain.out
    assert all(json.loads(line) for line in checked.out.splitlines())
