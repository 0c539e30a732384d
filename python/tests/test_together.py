"""`mmulab reproduce together` and `mix-tlbs`: what every run of them must keep to."""

import json
from pathlib import Path

import pytest
from conftest import Cli

from mmulab.cli.app import invoke
from mmulab.reproduce.shared.pages import marks
from mmulab.reproduce.together import systems

# Eight kernels over two tables, and the three of Elastic Translations over Svnapot's.
EVERY = 8 * 2 + 3
# Programs of a page in the suite; of all of them it takes minutes.
FEW = 2
TRACE = "gen:gups?footprint=64M&populate=true&updates=20k"


def test_every_design_over_every_table_under_every_kernel(cli: Cli) -> None:
    """Merged tables change what a walk reads, never how many walks there are; TLBs change walks."""
    ran = cli("reproduce", "together", "--trace", TRACE, "--set", "memory.size=1G", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["rows"]
    rows = {(row["kernel"], row["table"]): {d["design"]: d for d in row["designs"]} for row in found}
    assert len(rows) == EVERY
    for (kernel, table), designs in rows.items():
        if table == "svnapot":
            assert list(designs) == ["split"]
            assert designs["split"]["walks"] <= rows[kernel, "radix"]["split"]["walks"], kernel
            continue
        assert list(designs) == ["split", "zen", "mix", "mix-merged", "mix+colt"]
        if table == "radix":
            assert all(designs["split"][f"gain_{how}"] == 0 for how in ("serial", "independent", "dependent"))
            continue
        for name, of in designs.items():
            tree = rows[kernel, "radix"][name]
            assert of["walks"] == tree["walks"], (kernel, name)
            assert 0 < of["accesses_per_walk"] <= tree["accesses_per_walk"], (kernel, name)
    small, large = (rows[kernel, "radix"]["split"]["walks"] for kernel in ("linux-4k", "linux-thp"))
    assert large * 10 < small


@pytest.mark.parametrize("count", [FEW, pytest.param(len(systems.GENERATED), marks=pytest.mark.long)])
def test_the_papers_programs_fill_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    """Means over the programs, and by program the fastest system, which no other is faster than."""
    monkeypatch.setattr(systems, "GENERATED", systems.GENERATED[:count])
    page = tmp_path / "page.md"
    page.write_text("".join(f"{begin}\n{end}\n" for begin, end in (marks("together", n) for n in ("gain", "best"))))
    code = invoke(["reproduce", "together", "--quick", "--max-instructions", "20k", "--page", str(page), "--json"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    rows = json.loads(shown.out)["rows"]
    assert len({row["program"] for row in rows}) == count
    assert len(rows) == count * EVERY
    text = page.read_text()
    assert text.count("| freebsd-reserv | compendia |") == 1
    for kernel in ("linux-4k", "linux-thp"):
        line = next(line for line in text.splitlines() if line.startswith(f"| {kernel} |") and "," in line)
        best = [float(cell.split()[-1].rstrip("%")) for cell in line.split("|")[2:-1]]
        for program, shown in zip(dict.fromkeys(row["program"] for row in rows), best, strict=True):
            gains = [
                design["gain_independent"]
                for row in rows
                if (row["program"], row["kernel"]) == (program, kernel)
                for design in row["designs"]
            ]
            assert shown == pytest.approx(100 * max(gains), abs=0.11)


def test_designs_in_virtual_machines_and_on_shader_cores(cli: Cli) -> None:
    """Regimes are the ones asked for; a GPU's split TLBs are replaced as a processor's are."""
    common = ("--designs", "mix,mix-merged", "--set", "memory.size=8G", "--json", "--max-instructions", "100k")
    ran = cli("reproduce", "mix-tlbs", "--trace", TRACE, "--vms", "2", *common)
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)
    assert [row["regime"] for row in rows[-2:]] == ["2 VMs, memhog 20 %", "2 VMs, memhog 40 %"]
    assert [d["design"] for d in rows[0]["designs"]] == ["split", "mix", "mix-merged"]
    gpu = ("--machine", "gpu-mix-baseline", "--vms", "0", "--trace", "gen:gpu-kmeans?points=20k")
    ran = cli("reproduce", "mix-tlbs", *gpu, *common)
    assert ran.code == 0, ran.err
    assert all(not row["regime"].count("VM") for row in json.loads(ran.out))
