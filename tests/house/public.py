"""What is public: the names in `__all__` of every module that has a page in the reference."""

import ast
import importlib
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "site_reference.py"


def public_modules() -> list[str]:
    """The modules with a page, as the documentation lists them."""
    (listed,) = (
        each.value
        for each in ast.parse(PAGES.read_text(encoding="utf-8")).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "ROOMS"
    )
    return list(ast.literal_eval(listed))


def public_names() -> dict[str, set[str]]:
    """The public names by the module that has them."""
    return {module: set(importlib.import_module(module).__all__) for module in public_modules()}
