"""`mmulab reproduce together` and `mix-tlbs`: what every run of them must keep to."""

import json

from conftest import Cli

TRACE = "gen:gups?footprint=64M&populate=true&updates=20k"


def test_every_design_over_every_table_under_every_kernel(cli: Cli) -> None:
    """Merged tables change what a walk reads, never how many walks there are; TLBs change walks."""
    ran = cli("reproduce", "together", "--trace", TRACE, "--set", "memory.size=1G", "--json")
    assert ran.code == 0, ran.err
    rows = {(row["kernel"], row["table"]): {d["design"]: d for d in row["designs"]} for row in json.loads(ran.out)}
    assert len(rows) == 4 * 2
    for (kernel, table), designs in rows.items():
        assert list(designs) == ["split", "zen", "mix", "mix-merged", "mix+colt"]
        if table == "radix":
            assert designs["split"]["gain"] == 0
            continue
        for name, of in designs.items():
            tree = rows[kernel, "radix"][name]
            assert of["walks"] == tree["walks"], (kernel, name)
            assert 0 < of["accesses_per_walk"] <= tree["accesses_per_walk"], (kernel, name)
    small, large = (rows[kernel, "radix"]["split"]["walks"] for kernel in ("linux-4k", "linux-thp"))
    assert large * 10 < small


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
