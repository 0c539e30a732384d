"""HTML pages that need nothing else: styles and scripts are inside."""

from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, select_autoescape
from markupsafe import Markup

from mmulab import engine, units


def render(package: str, template: str, names: dict[str, Any], **values: Any) -> str:
    """Fills the template of a package's `templates`; `names` are known to macros too."""
    environment = Environment(
        autoescape=select_autoescape(default=True), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        bytes=units.show_bytes, count=units.show_count, rate=units.show_rate, percent=units.show_percent
    )
    environment.globals.update(names)
    shared = resources.files("mmulab.study") / "templates"
    text = (resources.files(package) / "templates" / template).read_text(encoding="utf-8")
    return environment.from_string(text).render(
        version=engine.version(),
        style=Markup((shared / "report.css").read_text(encoding="utf-8")),
        script=Markup((shared / "report.js").read_text(encoding="utf-8")),
        **values,
    )
