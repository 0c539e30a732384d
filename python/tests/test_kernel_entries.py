"""Instructions of a recorded kernel by the way into it: `scripts/kernel_entries.py`."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/kernel_entries.py"
SYMBOLS = """
guest: booting
ffffffff81000000 T entry_SYSCALL_64
ffffffff81000100 t __x64_sys_read
ffffffff81000200 T asm_exc_page_fault
ffffffff81000300 T asm_sysvec_apic_timer_interrupt
ffffffff81000400 T native_irq_return_iret
ffffffff81000500 T __switch_to_asm
ffffffff81000600 T ret_from_fork
"""
# Process 1 reads. In the call it faults, is interrupted, and gives way to a kernel thread, which gives way to a new
# process 2. Then process 1 goes on.
TRACE = """
p 1.1
f 0x400000 x100
f 0xffffffff81000000 x10
f 0xffffffff81000100 x20
f 0xffffffff81000200 x30
f 0xffffffff81000300 x40
f 0xffffffff81000400 x1
f 0xffffffff81007000 x5
f 0xffffffff81000400 x1
f 0xffffffff81007000 x7
f 0xffffffff81000500 x2
f 0xffffffff81007000 x50
p 2.2
f 0xffffffff81000500 x2
f 0xffffffff81000600 x3
f 0x400100 x200
f 0xffffffff81000200 x8
p 1.1
f 0xffffffff81000500 x2
f 0xffffffff81007000 x9
f 0x400000 x1
"""


def test_instructions_are_counted_by_the_way_into_the_kernel(tmp_path: Path) -> None:
    symbols = tmp_path / "kallsyms"
    symbols.write_text(SYMBOLS)
    command = [sys.executable, str(SCRIPT), str(symbols)]
    ran = subprocess.run(command, input=TRACE, capture_output=True, text=True, check=True)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ran.stdout.splitlines()[2:]]
    counts = {way: (times, int(count.replace(",", ""))) for way, times, count, _ in rows}
    assert counts == {
        "programs": ("", 301),
        "system call": ("", 10),
        # Its block, the return of the fault, 7 behind it, and 2 and 9 when the process goes on.
        "read": ("1", 20 + 1 + 7 + 2 + 9),
        # Its block, the return of the interrupt, and 5 behind it; then the fault of process 2.
        "page fault": ("2", 30 + 1 + 5 + 8),
        "interrupt": ("1", 40),
        "kernel threads": ("", 2 + 50),
        # The switch to process 2 is before anything that tells where it is.
        "not known": ("", 2),
        "begin of a child": ("", 3),
    }


def test_without_symbols_it_says_how_it_is_called() -> None:
    ran = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "SYMBOLS" in ran.stderr
