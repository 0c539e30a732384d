"""Constraints of sweeps against Python's own evaluation, over random expressions; and what they do not allow."""

import ast
import operator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mmulab import UserError, sweep
from mmulab.sweep.constraint import Constraint

NUMBERS = ("entries", "ways", "penalty")
TEXTS = ("policy",)
NAMES = (*NUMBERS, *TEXTS)
VALUES = st.fixed_dictionaries(
    {
        "entries": st.integers(0, 4096),
        "ways": st.integers(-3, 16),
        "penalty": st.floats(-10, 10, allow_nan=False),
        "policy": st.sampled_from(["linux-4k", "linux-thp"]),
    }
)


def _numbers() -> st.SearchStrategy[str]:
    leaves = st.one_of(st.sampled_from(NUMBERS), st.integers(0, 100).map(str), st.just("1.5"))

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        both = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner)
        return st.one_of(
            both.map(lambda part: f"({part[0]} {part[1]} {part[2]})"), inner.map(lambda part: f"(-{part})")
        )

    return st.recursive(leaves, grown, max_leaves=6)


def _conditions() -> st.SearchStrategy[str]:
    order = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    numbers = st.tuples(_numbers(), order, _numbers()).map(" ".join)
    chains = st.tuples(_numbers(), order, _numbers(), order, _numbers()).map(" ".join)
    texts = st.sampled_from(
        [
            "policy == 'linux-4k'",
            "policy != 'linux-thp'",
            "policy in ['linux-thp', 'x']",
            "policy not in ('linux-thp',)",
        ]
    )
    listed = _numbers().map(lambda number: f"{number} in [4, ways, 1.5]")

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        both = st.tuples(inner, st.sampled_from(["and", "or"]), inner)
        return st.one_of(
            both.map(lambda part: f"({part[0]} {part[1]} {part[2]})"), inner.map(lambda part: f"(not {part})")
        )

    return st.recursive(st.one_of(numbers, chains, texts, listed), grown, max_leaves=6)


@given(_conditions(), VALUES)
@settings(max_examples=600, deadline=None)
def test_a_constraint_means_what_python_means(text: str, values: dict[str, Any]) -> None:
    """Where Python divides by zero, the constraint is refused by its place."""
    constraint = Constraint(text, "here", NAMES)
    try:
        expected = eval(text, {"__builtins__": {}}, dict(values))
    except ZeroDivisionError:
        with pytest.raises(UserError, match="here: "):
            constraint.holds(values)
        return
    assert constraint.holds(values) is expected


SETTLED = {
    "trace": "gen:sequential?footprint=64K",
    "machine": "skylake-e3-1240v5",
}


@given(
    st.lists(st.integers(1, 64).map(lambda sets: sets * 16), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=4, unique=True),
    st.integers(0, 512),
    st.sampled_from(["<", "<=", ">", ">="]),
)
@settings(max_examples=40, deadline=None)
def test_the_jobs_are_the_combinations_that_meet_all_constraints(
    entries: list[int], ways: list[int], limit: int, sign: str
) -> None:
    """No more and no fewer, each once."""
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign]
    expected = [(e, w) for e in entries for w in ways if compare(e // w, limit) and e != 16 * w]
    assume(expected)
    plan = sweep.plan(
        sweep.parse(
            {
                "constraints": [f"entries // ways {sign} {limit}", "not entries == 16 * ways"],
                "axes": {
                    **SETTLED,
                    "entries": {"key": "tlb.STLB.entries", "values": entries},
                    "ways": {"key": "tlb.STLB.ways", "values": ways},
                },
            }
        )
    )
    assert [(job.values["entries"], job.values["ways"]) for job in plan.jobs] == expected
    for job, (e, w) in zip(plan.jobs, expected, strict=True):
        assert job.job.sets == (f"tlb.STLB.entries={e}", f"tlb.STLB.ways={w}")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "entries.__class__",
        "[].append(1) == 1",
        "(lambda: 1)() == 1",
        "entries ** ways > 1",
        "entries << 99 > 1",
        "'a' in policy",
        "[e for e in [1]] == [1]",
        "policy[0] == 'l'",
        "f'{entries}' == '1'",
        "(entries := 5) > 1",
        "b'a' == b'a'",
        "1j == 1j",
        "None == None",
        "True if entries else False",
        "os == 1",
        "entries is ways",
        "-'a' == 'a'",
        "'a' * 999 == 'a'",
        "policy < 5",
        "entries == 'a'",
        "entries and ways",
        "not entries",
        "(" * 300 + "1" + ")" * 300 + " == 1",
        "entries > " + "1" * 5000,
        "entries > 1 and " * 200 + "entries > 1",
    ],
)
def test_nothing_else_is_evaluated(text: str) -> None:
    with pytest.raises(UserError, match=r"^here: "):
        Constraint(text, "here", NAMES).holds({"entries": 5, "ways": 4, "penalty": 1.0, "policy": "linux-4k"})


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """And what is read holds nothing but the nodes that are allowed."""
    try:
        Constraint(text, "here", NAMES)
    except UserError:
        return
    allowed = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Name, ast.List, ast.Tuple)
    parsed = ast.parse(text.strip(), mode="eval").body
    assert all(isinstance(node, allowed) for node in ast.walk(parsed) if isinstance(node, ast.expr))
