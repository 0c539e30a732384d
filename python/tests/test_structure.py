"""The shape of the code: no circles of files, no arrow up, nothing special in plain parts (`scripts/structure.py`)."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import CHECKOUT


@pytest.fixture
def structure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, as a module."""
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts"))
    import structure

    monkeypatch.delitem(sys.modules, "structure")
    return structure


def crate(folder: Path, **files: str) -> Path:
    """A crate of these files: `a__b` is a/b.rs."""
    for name, text in files.items():
        path = folder / "src" / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_code_has_the_shape_that_is_promised(structure: ModuleType) -> None:
    """Or what is listed as known."""
    assert structure.problems(CHECKOUT) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("use crate::b::B; pub struct A(B);", "use crate::a::A; pub struct B(Box<A>);"),
        ("pub struct A; fn f(_: super::b::B) {}", "use super::A; pub struct B(A);"),
        ("use crate::b; pub struct A; fn f() { b::new(); }", "use crate::{a::{self, A}}; pub fn new() -> A { A }"),
        ("use super::b::*; pub struct A(B);", "pub struct B(Option<Box<crate::A>>);"),
        ("pub struct A; mod inner { fn f(_: super::super::b::B) {} }", "use crate::A as Other; pub struct B(Other);"),
        ("macro_rules! m { () => {} } use crate::b::B; pub struct A(B);", "pub struct B; fn f(_: crate::a::Made) {}"),
    ],
)
def test_circles_of_rust_files_are_found(structure: ModuleType, tmp_path: Path, a: str, b: str) -> None:
    """By `use`, by paths, through re-exports, modules by their names, globs, and modules within a file."""
    graph = structure.rust_graph(crate(tmp_path, lib="mod a; mod b; pub use a::A;", a=a, b=b))
    assert structure.cycles(graph) == [["a.rs", "b.rs", "a.rs"]]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("pub struct A;", "use super::A; pub struct B(A);"),
        ("pub struct A; #[cfg(test)] mod tests { use crate::b::B; fn f(_: B) {} }", "pub struct B(super::A);"),
        ("pub struct A; /* crate::b::B */ // crate::b::B", 'use crate::A; const B: (A, &str) = (A, "crate::b::B");'),
        ("use std::fmt; pub struct A; mod inner { use super::*; }", "pub struct B(crate::A);"),
    ],
)
def test_what_is_no_circle_is_none(structure: ModuleType, tmp_path: Path, a: str, b: str) -> None:
    """A parent that only declares and re-exports uses nothing; neither do tests, comments and texts."""
    lib = "mod a; mod b; pub use a::A; pub use b::B;"
    assert structure.cycles(structure.rust_graph(crate(tmp_path, lib=lib, a=a, b=b))) == []


def test_a_parent_that_works_with_its_children_uses_them(structure: ModuleType, tmp_path: Path) -> None:
    lib = "mod a; pub use a::A; pub struct Root; fn f() -> A { A(Root) }"
    graph = structure.rust_graph(crate(tmp_path, lib=lib, a="pub struct A(pub crate::Root);"))
    assert structure.cycles(graph) == [["a.rs", "lib.rs", "a.rs"]]


def test_circles_of_python_files_are_found(structure: ModuleType, tmp_path: Path) -> None:
    package = tmp_path / "mmulab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from mmulab import b\n")
    (package / "b.py").write_text("def f():\n    from mmulab.c import g\n    return g\n")
    (package / "c.py").write_text("import mmulab.a\ng = mmulab.a\n")
    way = ["mmulab.a", "mmulab.b", "mmulab.c", "mmulab.a"]
    assert structure.cycles(structure.python_graph(package)) == [way]
    (package / "c.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mmulab.a\ng = 1\n")
    assert structure.cycles(structure.python_graph(package)) == []


def test_known_circles_that_are_gone_are_told(structure: ModuleType) -> None:
    graph = {"a": {"b"}, "b": {"a"}}
    assert structure.cycle_problems("x", graph, ("a -> b -> a",)) == []
    assert structure.cycle_problems("x", graph, ()) == ["x: a circle of files: a -> b -> a"]
    (gone,) = structure.cycle_problems("x", {}, ("a -> b -> a",))
    assert "no circle a -> b -> a" in gone


def test_an_arrow_up_is_found(structure: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "LAYERS", (("low", "gone"), ("high",)))
    manifests = {
        "low": "[dependencies]\nmmulab-high.workspace = true\n",
        "high": "[dependencies]\nmmulab-low.workspace = true\n[dev-dependencies]\nmmulab-high.workspace = true\n",
        "new": "",
    }
    for name, text in manifests.items():
        (tmp_path / "crates" / name).mkdir(parents=True)
        (tmp_path / "crates" / name / "Cargo.toml").write_text(text)
    found = structure.crate_breaches(tmp_path)
    words = ("low depends on high", "new is in no layer", "names gone")
    assert len(found) == len(words)
    assert all(any(said in line for line in found) for said in words)


def test_rules_are_checked_where_they_hold(structure: ModuleType, tmp_path: Path) -> None:
    rule = structure.Rule("impl of a space", "x", r"\bimpl Space\b", but="space")
    (only,) = structure.breaches(tmp_path, rule)
    assert "no such folder" in only
    (tmp_path / "x" / "space").mkdir(parents=True)
    (tmp_path / "x" / "space" / "map.rs").write_text("impl Space {}")
    (tmp_path / "x" / "note.rs").write_text("// impl Space\n#[cfg(test)]\nmod tests { impl Space {} }")
    assert structure.breaches(tmp_path, rule) == []
    (tmp_path / "x" / "fault.rs").write_text("impl Space {}")
    assert structure.breaches(tmp_path, rule) == ["x/fault.rs: impl Space (impl of a space)"]
    comments = structure.Rule("spaces", "x", "Space", comments=True)
    assert len(structure.breaches(tmp_path, comments)) == 3


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("impl AddressSpace {}", True),
        ("impl<'a> Drop for AddressSpace {}", True),
        ("impl From<Vec<u8>> for crate::space::AddressSpace {}", True),
        ("impl Iterator for &mut AddressSpace {}", True),
        ("impl Drop for AddressSpaces {}", False),
        ("impl Manager for Linux { fn fault(space: &mut AddressSpace) {} }", False),
    ],
)
def test_an_impl_of_an_address_space_is_found_with_a_trait_too(
    structure: ModuleType, tmp_path: Path, text: str, is_one: bool
) -> None:
    (rule,) = (rule for rule in structure.RULES if rule.name == "impl of an address space")
    path = tmp_path / rule.inside / "fault.rs"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert bool(structure.breaches(tmp_path, rule)) == is_one


def test_a_list_of_a_folder_that_is_included_uses_the_files_of_the_folder(
    structure: ModuleType, tmp_path: Path
) -> None:
    """A build script writes the list, so that no `mod` names the files."""
    listed = 'include!(concat!(env!("OUT_DIR"), "/parts.rs")); pub struct Listed;'
    folder = crate(tmp_path, lib="mod parts;", parts__mod=listed, parts__one="pub struct One(super::Listed);")
    assert structure.cycles(structure.rust_graph(folder)) == [["parts/mod.rs", "parts/one.rs", "parts/mod.rs"]]
