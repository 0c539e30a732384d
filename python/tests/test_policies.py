"""What policies are, as their files declare it, and policies that are one TOML file."""

from pathlib import Path

from conftest import Cli

COLUMNS = ["fault_sizes", "allocation", "promotion_sizes", "promotion", "hints"]


def test_the_table_says_what_each_policy_is(cli: Cli) -> None:
    """Table II of paper 3, for the policies of this tool."""
    rows = {row["name"]: [row[key] for key in COLUMNS] for row in cli("policies", "--table", "--json").json()}
    assert sorted(rows) == sorted(p["name"] for p in cli("policies", "list", "--json").json())
    assert rows["linux-4k"] == [["4K"], "buddy", [], [], "none"]
    assert rows["linux-mthp"][0] == ["2M", "64K", "4K"]
    assert rows["freebsd-super"] == [["4K"], "reservation of 2M", ["2M"], ["in place, when full"], "none"]
    assert rows["eager-64k"] == [["64K", "4K"], "buddy", [], [], "none"]
    assert rows["neighbour-4k"][1] == "neighbour"
    text = cli("policies", "--table").out
    assert all(name in text for name in rows)
    assert "virtualised" in text


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
    assert ran.json()["counts"]["kernel"]["happenings"]["mthp_faults"] > 400
    for text, key in (
        ('fault = { sizes = ["32K"], enabled = "madvise" }\nhints.from = "none"', "fault.enabled"),
        ('promotion.when = "full"', "promotion.when"),
        ('placement.levels = ["2M"]', "placement.levels"),
    ):
        mine.write_text(f'name = "mine"\nkind = "linux"\n{text}\n')
        ran = cli("run", "skylake-e3-1240v5", "--trace", trace, "--policy", str(mine))
        assert ran.code != 0
        assert key in ran.err
