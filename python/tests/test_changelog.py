"""The changelog names faults that were mended by numbers; each number has a test that names it."""

import re

from conftest import CHECKOUT

ITEM = re.compile(r"^- \*\*(\d+)\.\*\* (?!\*\(not mended yet\)\*)", re.MULTILINE)


def test_each_mended_fault_has_a_test_that_names_it() -> None:
    """The changelog promises that `grep -rn "CHANGELOG number N"` finds the tests of number N."""
    numbers = ITEM.findall((CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8"))
    sources = [*CHECKOUT.glob("crates/**/*.rs"), *CHECKOUT.glob("python/tests/**/*.py")]
    named = set()
    for source in sources:
        named.update(re.findall(r"CHANGELOG number (\d+)\b", source.read_text(encoding="utf-8")))
    assert set(numbers) <= named
