"""`reproduce elastic-fault-path`: what the kernel did in each fault of a recorded system."""

import json
import shutil

import pytest
from conftest import Cli

from mmulab.reproduce.elastic.fault_path import faults
from mmulab.workloads import cache


def _zeroing(at: int, page: int) -> list[str]:
    """A repeated store of 8 bytes over a page of 4 KB."""
    lines = ["code n=1 x=f348ab 0w8"]
    for byte in range(0, 4096, 8):
        lines += [f"f {at:#x}", f"w {page + byte:#x}"]
    return lines


def test_a_fault_is_what_the_kernel_runs_between_two_stretches_of_the_program() -> None:
    """If it zeroes a page. The beginning of the trace, an interrupt and the trace's end are no faults."""
    kernel, program, page = 0xFFFF_FFFF_8100_0000, 0x40_1000, 0xFFFF_8880_0010_0000
    half = [f"f {kernel:#x} x7", *_zeroing(kernel + 0x40, page)]
    text = [
        *half,
        "code n=4 x=c6060148ffc6 0w1",
        f"f {program:#x} x4",
        "code n=9 x=00 1r8 2w8 3w8",
        f"f {kernel:#x} x9",
        f"r {page + 4096:#x}",
        f"w {page + 4104:#x}",
        # Neighbours, but of one instruction each, in a block that makes several accesses.
        f"w {page + 4112:#x}",
        "n 30",
        *_zeroing(kernel + 0x40, page),
        f"f {program:#x} x4",
        # An interrupt.
        f"f {kernel + 0x1000:#x} x31",
        f"f {program:#x} x4",
        *half,
    ]
    (fault,) = faults(text, 4096)
    assert (fault.instructions, fault.loads, fault.stores) == (9 + 30 + 1, 1, 3)
    assert (fault.repeated, fault.zeroed) == (511, 4096 - 8)
    assert len(fault.code) == 2
    assert len(fault.data) == 2, "the line of the accesses, and that of the first store to the page"


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None or not list((cache.root().parent / "kernels").glob("vmlinuz-*-amd64")),
    reason="needs qemu-system-x86_64 and a kernel",
)
def test_linux_zeroes_what_it_maps(cli: Cli) -> None:
    """The counts are those of some Linux: a page of 4K is zeroed once, and the price is of the same magnitude."""
    ran = cli("reproduce", "elastic-fault-path", "--quick", "--work", "work", "--out", "out")
    assert ran.code == 0, ran.err
    small, large = json.loads((cli.cwd / "out" / "elastic-fault-path.json").read_text())["rows"]
    assert 4088 <= small["zeroed"] < 4096 + 512
    assert 500 < small["instructions"] < 10_000
    assert small["loads"] + small["stores"] < small["instructions"]
    assert 0.95 * 2**21 < large["zeroed"] < 2.1 * 2**21
    priced = sum(small["priced"].values())
    assert 0.3 < (small["instructions"] + small["repeated"]) * small["cycles_of_an_instruction"] / priced < 3
