"""What policies are, as their files declare it, and policies that are one TOML file."""

from pathlib import Path

import pytest
from conftest import Cli

from mmulab import UserError, engine
from mmulab.study.plan import Plan

COLUMNS = ["fault_sizes", "allocation", "promotion_sizes", "promotion", "hints"]


def test_the_table_says_what_each_policy_is(cli: Cli) -> None:
    """Table II of paper 3, for the policies of this tool."""
    rows = {row["name"]: [row[key] for key in COLUMNS] for row in cli("policies", "--table", "--json").json()}
    assert sorted(rows) == sorted(p["name"] for p in cli("policies", "list", "--json").json())
    assert rows["linux-4k"] == [["4K"], "buddy", [], [], "none"]
    assert rows["linux-mthp"][0] == ["2M", "64K", "4K"]
    # khugepaged makes pages of 2M only, and from Linux 7.2 on those of the other sizes, too.
    assert (rows["linux-mthp"][2], rows["linux-mthp-khugepaged"][2]) == (["2M"], ["2M", "64K"])
    assert rows["freebsd-super"] == [["4K"], "reservation of 2M", ["2M"], ["in place, when full"], "none"]
    assert rows["eager-64k"] == [["64K", "4K"], "buddy", [], [], "none"]
    assert rows["neighbour-4k"][1] == "neighbour"
    assert rows["coalapaging-bit"][:2] == [["2M", "4K"], "coala"]
    assert {"32M", "64K"} <= set(rows["coalapaging-bit"][2])
    assert "in place, contiguous bit" in rows["coalapaging-bit"][3]
    text = cli("policies", "--table").out
    assert all(name in text for name in rows)
    assert "virtualised" in text


def test_the_table_says_which_policies_a_host_can_have(cli: Cli) -> None:
    """And a host takes those, and no others: a profile has addresses of the guests' programs."""
    rows = {row["name"]: row["virtualised"] for row in cli("policies", "--table", "--json").json()}
    assert {name for name, where in rows.items() if where == "guest"} == {"elastic-online"}
    assert set(rows.values()) == {"guest", "guest, host"}
    for name in ("elastic-online", "linux-thp", "freebsd-super", "hugetlb-2m"):
        job = engine.Job("skylake-e3-1240v5", "linux-4k", ("virtual.memory.size=256M",), host_policy=name)
        if rows[name] == "guest":
            with pytest.raises(UserError, match=r'hints\.from is "leshy"'):
                engine.resolve(job)
        else:
            engine.resolve(job)


def test_all_policies_of_a_study_are_those_that_its_machines_can_run() -> None:
    """No entry of an x86 table has a contiguous bit."""

    def under(*machines: str) -> tuple[str, ...]:
        return Plan.make("gen:gups", machines, ("all",), (), engine.Options()).policies

    assert "contiguous-bit" in under("neoverse-n1")
    everywhere = under("neoverse-n1", "skylake-e3-1240v5")
    assert "contiguous-bit" not in everywhere
    assert {"coalapaging", "linux-4k"} <= set(everywhere)
    # Entries of 64K, or of 1G, are no huge pages of a table with base pages of 64K.
    assert set(under("neoverse-n1-64k")) == {"hugetlb-2m", "linux-4k", "linux-kswapd", "linux-thp", "linux-thp-madvise"}


# Table II of paper 3, row by row: transparent, sizes of faults, of translations and of promotions.
TABLE_II = {
    "HugeTLB": (False, {"4K", "64K", "2M", "32M", "1G"}, {"4K", "64K", "2M", "32M", "1G"}, set()),
    "mTHP": (True, {"4K", "64K", "2M"}, {"4K", "64K", "2M"}, {"2M"}),
    "FreeBSD": (True, {"4K"}, {"4K", "2M"}, {"2M"}),
    "HawkEye": (True, {"4K", "2M"}, {"4K", "2M"}, {"2M"}),
    "Trident": (True, {"4K", "2M", "1G"}, {"4K", "2M", "1G"}, {"2M", "1G"}),
    "Elastic Translations": (True, {"4K", "2M"}, {"4K", "64K", "2M", "32M"}, {"64K", "2M", "32M"}),
}
ROWS = {
    "HugeTLB": "hugetlb-2m",
    "mTHP": "linux-mthp",
    "FreeBSD": "freebsd-super",
    "HawkEye": "hawkeye",
    "Trident": "trident",
    "Elastic Translations": "elastic",
}
_TABLE_COLUMNS = ("transparent", "fault_sizes", "translation_sizes", "promotion_sizes")
# Where a policy of this tool is not the paper's row, and why.
DIFFERS = {
    ("HugeTLB", "fault_sizes"): "a pool has one size, which hugetlb.size sets",
    ("HugeTLB", "translation_sizes"): "likewise",
}


def test_table_ii_of_paper_3_row_by_row(cli: Cli) -> None:
    """S2-M042: each row of the paper beside the policy that stands for it; differences are named, and real."""
    found = {row["name"]: row for row in cli("policies", "--table", "--json").json()}
    for paper, wanted in TABLE_II.items():
        row = found[ROWS[paper]]
        for column, of_paper in zip(_TABLE_COLUMNS, wanted, strict=True):
            ours = row[column] if isinstance(row[column], bool) else set(row[column])
            assert (ours != of_paper) == ((paper, column) in DIFFERS), f"{paper}, {column}: {ours} and {of_paper}"


def test_what_table_ii_says_of_policies_in_words(cli: Cli) -> None:
    """How frames are found and pages promoted, of the rows that are there and of Linux, THP and Quicksilver beside."""
    found = {row["name"]: row for row in cli("policies", "--table", "--json").json()}
    assert found["linux-4k"]["translation_sizes"] == ["4K"]
    assert found["linux-thp"]["fault_sizes"] == ["2M", "4K"]
    # Eager allocation of the largest possible size first: mTHP tries 2M, then 64K, then 4K.
    assert found["linux-mthp"]["fault_sizes"] == ["2M", "64K", "4K"]
    assert found["linux-mthp"]["promotion"][-1] == "copy, by a daemon"
    assert (found["freebsd-super"]["allocation"], found["freebsd-super"]["promotion"]) == (
        "reservation of 2M",
        ["in place, when full"],
    )
    assert found["quicksilver-sync-1"]["promotion"] == ["in place, from 1 pages on"]
    assert found["quicksilver-sync-64"]["promotion"] == ["in place, from 64 pages on"]
    filled = "in place, filled by a daemon from 64 pages on"
    assert found["quicksilver-async-64"]["promotion"] == ["in place, when full", filled]
    # Asynchronous pre-zeroing.
    assert {found[name]["allocation"] for name in ("eager-2m-zeroed-ahead", "trident-faults", "trident")} == {
        "buddy, cleared ahead"
    }
    # Migrate to the largest size possible, fall back on failure; the selection is Linux's.
    assert "copy, by a daemon, to the largest size possible" in found["trident"]["promotion"]
    assert found["ranger"]["allocation"] == "buddy, brought together by a daemon"
    assert found["trident-faults"]["fault_sizes"] == ["1G", "2M", "4K"]
    assert (found["coalapaging"]["allocation"], found["ca-paging"]["allocation"]) == ("coala", "ca")
    assert found["hugetlb-1g"]["fault_sizes"] == ["1G", "4K"]


def test_the_table_and_a_command_exclude_each_other(cli: Cli) -> None:
    ran = cli("policies", "--table", "list")
    assert ran.code != 0
    assert "leave one of them out" in ran.err


def test_a_policy_is_one_file_of_toml(cli: Cli, tmp_path: Path) -> None:
    """Parts in a file of the user's own; a contradiction between parts is refused under its key."""
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\nkind = "linux"\nlinux.zero_page = false\nfault.sizes = ["32K"]\n')
    trace = "gen:gups?footprint=16M&updates=2k"
    ran = cli("run", "skylake-e3-1240v5", "--trace", trace, "--policy", str(mine), "--json")
    assert ran.json()["counts"]["kernel"]["events"]["mthp_faults"] > 400
    for text, key in (
        ('fault = { sizes = ["32K"], enabled = "madvise" }\nhints.from = "none"', "fault.enabled"),
        ('promotion.when = "full"', "promotion.when"),
        ('placement.levels = ["2M"]', "placement.levels"),
    ):
        mine.write_text(f'name = "mine"\nkind = "linux"\n{text}\n')
        ran = cli("run", "skylake-e3-1240v5", "--trace", trace, "--policy", str(mine))
        assert ran.code != 0
        assert key in ran.err


@pytest.mark.parametrize(
    ("policy", "sets", "event"),
    [
        ("ingens", ["promotion.daemon.scan_sleep_ms=1"], "khugepaged_collapses"),
        (
            "hawkeye",
            ["promotion.daemon.scan_sleep_ms=1", "promotion.recovery={above_percent=0,below_percent=0}"],
            "recovery_zero_pages",
        ),
    ],
)
def test_no_tlb_keeps_a_page_that_a_daemon_replaced(policy: str, sets: list[str], event: str) -> None:
    """Daemons that wake between two references: after each, the check compares all entries of TLBs with the tables."""
    job = engine.Job("zen3-5900x", policy, tuple(f"policy.{key}" for key in ["linux.zero_page=false", *sets]))
    options = engine.Options(max_instructions=1_000_000, check="translations")
    (result,) = engine.run("gen:gups?footprint=64M&updates=100k", [job], options).results
    assert result.data["ended"]["reason"] == "limit", result.data["ended"]
    assert result.data["counts"]["kernel"]["events"][event] > 0
