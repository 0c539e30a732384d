"""Writes the machines whose TLBs `mmulab machines fit` proposes in the area of another's: machines/haswell-*.toml.

Everything else they inherit from the baseline. Run it after changing the baseline or the area model.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.units import toml_value

MACHINES = Path(__file__).resolve().parents[1] / "machines"
BASELINE = "haswell-mix-baseline"
SOURCE = "paper 4, section 7.2 (area-equivalent)"
FITTED = "by the area model of docs/concepts/energy.md, in the area of haswell-mix-baseline (`mmulab machines fit`)"
# What no source states, by key: why it is as it is.
ASSUMED = {
    "entries": FITTED,
    "ways": FITTED,
    "replacement": "no source states it; true LRU",
    "hit_cycles": "5-7 stated for second levels; 6 taken",
    "probe_cycles": "not stated: a further access of the pipeline's stage",
    "predictor": "sizes scaled to three page sizes from 128 one-bit entries of paper 4's reference [10]",
    "mix": "bits that the bitmap needs beyond the 13 of a tag: not said where the paper takes them from",
}
KEYS = [
    "name",
    "level",
    "side",
    "entries",
    "ways",
    "sizes",
    "design",
    "group",
    "mix",
    "probe",
    "predictor",
    "replacement",
    "hit_cycles",
    "probe_cycles",
]


@dataclass(frozen=True)
class Fitted:
    """A machine to write."""

    name: str
    design: str
    title: str
    about: str
    source: str


FILES = (
    Fitted(
        "haswell-mix",
        "mix",
        "Haswell's area with MIX TLBs, as in paper 4",
        "MIX TLBs for data at both levels: bundles of up to 16 superpages by a bitmap in the first level, of up to\n"
        " 128 by a length in the second.",
        "paper 4, sections 3 and 4; bundles of 16 to 128: section 4.2",
    ),
    Fitted(
        "haswell-mix-colt",
        "mix+colt",
        "Haswell's area with MIX TLBs that coalesce small pages too, as in paper 4",
        "As haswell-mix; up to four small pages of an aligned group share an entry as well.",
        "paper 4, sections 3, 4 and 7.2 (MIX with CoLT; up to 4 pages)",
    ),
    Fitted(
        "haswell-colt-plus",
        "colt++",
        "Haswell's area with CoLT++: each size of the split TLBs coalesces",
        "The baseline's split TLBs, each of which puts up to four neighbouring pages of its sizes into an entry.",
        "paper 4, section 7.2 (CoLT++; up to 4 pages)",
    ),
    Fitted(
        "haswell-skew",
        "skew",
        "Haswell's area with skewed TLBs, ways for each size, the guessed one's first",
        "TLBs for all page sizes at both levels, whose ways have hashes of their own, with a page-size predictor.",
        "paper 4, sections 5.1 and 7.2",
    ),
    Fitted(
        "haswell-hash-rehash",
        "hash-rehash",
        "Haswell's area with TLBs searched size by size, the guessed one first",
        "TLBs for all page sizes at both levels, searched size by size, with a page-size predictor.",
        "paper 4, sections 5.1 and 7.2",
    ),
)


def table(row: dict[str, Any], source: str) -> str:
    """An array as it stands in a file."""
    # What the engine leaves out of its own accord need not be said.
    plain = {"design": "plain", "probe": "parallel", "probe_cycles": 0}
    if row.get("mix"):
        row = row | {
            "mix": {key: value for key, value in row["mix"].items() if key in ("extra_bits", "small_group") and value}
        }
    given = {key: row[key] for key in KEYS if row.get(key) not in (None, {}) and row[key] != plain.get(key)}
    # A first level's latency is no assumption, nor is a bitmap that the tag has room for.
    sure = {"hit_cycles"} if not given["hit_cycles"] else set()
    sure |= {"mix"} if "extra_bits" not in given.get("mix", {}) else set()
    doubtful = {key: why for key, why in ASSUMED.items() if key in given and key not in sure}
    given |= {"source": source, "assumed": doubtful}
    return "[[tlb]]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in given.items())


def text(wanted: Fitted) -> str:
    """The file."""
    blocks = MACHINES.joinpath(f"{BASELINE}.toml").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    of_code = [block for block in blocks if block.startswith("[[tlb]]") and 'side = "instruction"' in block]
    fitted = engine.fit(BASELINE, wanted.design)["fitted"]["tlb"]
    tables = [table(row, f"{wanted.source}; {SOURCE}").rstrip("\n") for row in fitted if row["side"] != "instruction"]
    about = f"{wanted.about} Written by scripts/fitted_machines.py."
    head = f'base = "{BASELINE}"\nname = "{wanted.name}"\ntitle = "{wanted.title}"\ndescription = """\n{about}\n"""'
    return "\n\n".join([head, *of_code, *tables]) + "\n"


def main() -> None:
    """Writes them all."""
    for wanted in FILES:
        MACHINES.joinpath(f"{wanted.name}.toml").write_text(text(wanted), encoding="utf-8")


if __name__ == "__main__":
    main()
