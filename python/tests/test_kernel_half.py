"""The kernel's half of address spaces: by superpages, and counted apart from user space (S1-M007, S1-M010)."""

from pathlib import Path

import pytest
from bench import Bench, Json
from code_programs import CODE, PAGE
from conftest import Cli

from mmulab.reproduce.instruction.setting import SKYLAKE, Setting
from mmulab.result import Result

TEXT = 0xFFFFFFFF81000000
COSTS = ("l1i_misses", "l1d_misses", "walks", "walk_reads", "walk_cycles", "stall_cycles")
# Superpages of both halves: together as many as a thread's ITLB holds.
USER, KERNEL = 4, 4


def program(calls: int = 400) -> str:
    """A program that calls the kernel in turn: both have more pages of code than the ITLB has entries for 4 KB."""
    lines = [
        f"mmap {CODE:#x} {2 * USER}M rx file:/bin/prog+0",
        f"mmap {TEXT:#x} {2 * KERNEL}M rwx file:[kernel]+0 shared global label=[kernel]",
    ]
    for n in range(calls):
        page = n * 37 % (512 * USER)
        lines += [f"f {CODE + page * PAGE:#x} x20", f"f {TEXT + n * 53 % (512 * KERNEL) * PAGE:#x} x20"]
    return "\n".join(lines) + "\n"


def run(bench: Bench, setting: Setting, trace: str, *sets: str) -> Json:
    """Counted after all of the code was used once."""
    return bench.run(SKYLAKE, trace, setting.policy, *setting.sets, *sets, skip=400 * 40)


SMALL = Setting("4 KB code", "freebsd-code-4k")
WHOLE = Setting("superpages for code", "freebsd-code-1")
LINUX = Setting("Linux", "linux-4k")


def test_promotion_of_user_code_leaves_the_kernels_half_as_it_was(bench: Bench) -> None:
    """S1-M010: the kernel has superpages before and after."""
    small, whole = (bench.run(SKYLAKE, program(1200), setting.policy)["halves"] for setting in (SMALL, WHOLE))
    assert small["kernel"]["l1i_misses"] == whole["kernel"]["l1i_misses"] == KERNEL
    assert small["kernel"]["walks"] == whole["kernel"]["walks"]
    assert small["user"]["l1i_misses"] > 100 > whole["user"]["l1i_misses"] == USER
    # Once both are in the TLB, the kernel has no costs at all under either.
    small, whole = (run(bench, setting, program(1200))["halves"] for setting in (SMALL, WHOLE))
    assert set(small["kernel"].values()) == set(whole["kernel"].values()) == {0}
    assert small["user"]["walk_cycles"] > whole["user"]["walk_cycles"] == 0


@pytest.mark.parametrize("setting", [WHOLE, LINUX])
def test_both_halves_add_up_and_base_pages_cost_the_kernel_more(setting: Setting, bench: Bench) -> None:
    """S1-M007: user space and the kernel are counted apart."""
    for sets in ((), ("policy.linux.kernel_page=4K",)):
        result = bench.run(SKYLAKE, program(), setting.policy, *sets)
        for cost in COSTS:
            halves = sum(result["halves"][half][cost] for half in ("user", "kernel"))
            assert halves == sum(region[cost] for region in result["regions"]), cost
        mapped = next(r["mapped"] for r in result["regions"] if r["name"].startswith("[kernel]"))
        assert set(mapped) == ({"4K"} if sets else {"2M"})
    superpages, base = (
        run(bench, setting, program(1200), *sets)["halves"]["kernel"] for sets in ((), ("policy.linux.kernel_page=4K",))
    )
    assert superpages["walks"] == 0 < base["walks"] + base["l1i_misses"]
    assert superpages["stall_cycles"] < base["stall_cycles"]


def test_a_run_prints_both_halves(cli: Cli, tmp_path: Path) -> None:
    """Only where the trace shows a kernel."""
    (tmp_path / "both.mmtx").write_text(program())
    (tmp_path / "user.mmtx").write_text(f"mmap {CODE:#x} 2M rx file:/bin/prog+0\nf {CODE:#x}\n")
    ran = cli("run", SKYLAKE, "--trace", "both.mmtx", "--out", "out")
    assert ran.code == 0, ran.err
    assert "References to memory of" in ran.out
    assert "the kernel" in ran.out
    [path] = (tmp_path / "out").glob("*.json")
    assert Result.load(path).halves["kernel"]["l1i_misses"] > 0
    ran = cli("run", SKYLAKE, "--trace", "user.mmtx", "--json")
    assert "halves" not in ran.json()
