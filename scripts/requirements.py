"""Prints packages for pip, as pyproject.toml lists them: `dependencies`, or those of the extras named."""

import re
import sys
from pathlib import Path

text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
for name in sys.argv[1:]:
    # Python 3.10 has no TOML reader; these lists are plain enough for an expression.
    listed = re.search(rf"^{name} = \[(.*?)\]$", text, re.DOTALL | re.MULTILINE)
    if listed is None:
        raise SystemExit(f"pyproject.toml: no list {name}; give the name of an extra")
    print(*re.findall(r'"([^"]+)"', listed[1]))
