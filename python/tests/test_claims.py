"""The page of claims names each that a test checks."""

import importlib
from pathlib import Path

import pytest
from claims import CLAIMS, PAGE, page


def test_the_page_lists_every_claim_that_is_checked() -> None:
    """To accept a change, delete the page and run the tests again."""
    for module in sorted(Path(__file__).parent.glob("test_claims_*.py")):
        importlib.import_module(module.stem)
    if not PAGE.exists():
        PAGE.write_text(page(), encoding="utf-8")
        pytest.fail(f"{PAGE.name} did not exist: wrote it")
    assert PAGE.read_text(encoding="utf-8") == page()
    assert len({c.id for c in CLAIMS}) == len(CLAIMS)
