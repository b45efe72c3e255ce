"""The pages of the reference: every public name from its docstring. Written when the site is built."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from site_commands import commands_page
from site_text import cell, escaped, first_sentence, prose, table

ROOMS = (
    "dpsurvey",
    "dpsurvey.local",
    "dpsurvey.planning",
    "dpsurvey.privacy",
    "dpsurvey.design",
    "dpsurvey.loss.worst_case",
    "dpsurvey_papers.controlling_loss.printed",
    "dpsurvey_papers.sampling_privacy.toys",
    "dpsurvey_papers.specifications",
    "dpsurvey.mechanism",
    "dpsurvey.statistic",
    "dpsurvey_papers",
    # What packages need that add a command, or pictures in the same style.
    "dpsurvey.errors",
    "dpsurvey.cli.options",
    "dpsurvey.cli.output",
    "dpsurvey.text.layout",
    "dpsurvey.text.writing",
    "dpsurvey.view.plots",
    "dpsurvey.view.median_plots",
)
# Numbers, words, pairs of them: defaults that say something as they are.
PLAIN = r"[\w\s.,+\-()\"']*"


@cache
def homes() -> dict[int, str]:
    """Where each name is described: the first room that lists it. Other rooms lead there."""
    found: dict[int, str] = {}
    for room in rooms():
        module = importlib.import_module(room)
        for name in module.__all__:
            found.setdefault(id(getattr(module, name)), f"{room}.{name}")
    return found


@cache
def classes() -> dict[str, str]:
    """Names of public classes with their rooms, so that types in signatures lead to them."""
    return {home.rpartition(".")[2]: home for home in homes().values() if re.search(r"\.[A-Z]\w*[a-z]\w*$", home)}


def rooms() -> list[str]:
    """The rooms that are there."""
    there = [room for room in ROOMS if importlib.util.find_spec(room) is not None]
    return [room for room in there if hasattr(importlib.import_module(room), "__all__")]


def signature(what: Callable[..., Any], *, method: bool = False) -> str:
    """The arguments of a function, with the words for types as they are written; empty if there are none to see.

    >>> def draw(rate: float, *, order: str = "random") -> Sample: ...
    >>> signature(draw)
    '(rate: float, *, order: str = "random") -> Sample'
    """
    try:
        found = inspect.signature(what)
    except (TypeError, ValueError):
        return ""
    given = list(found.parameters.values())[1 if method else 0 :]
    parts: list[str] = []
    starred = False
    for each in given:
        if each.kind == each.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or each.kind in (each.VAR_POSITIONAL, each.KEYWORD_ONLY)
        parts.append(_parameter(each))
    back = _type(found.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {back}" if back and back != "None" else "")


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    written = _type(each.annotation)
    text = f"{stars}{each.name}" + (f": {written}" if written else "")
    if each.default is each.empty:
        return text
    value = json.dumps(each.default) if isinstance(each.default, str) else repr(each.default)
    # Defaults that are objects of their own are no Python to read.
    return f"{text} = {value if re.fullmatch(PLAIN, value) else '...'}"


def _type(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    plain = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)
    return re.sub(r"(?<![\w.\"'])[A-Z]\w+\b(?![\"'])", lambda word: classes().get(word.group(), word.group()), plain)


def directive(kind: str, head: str, body: str, fence: int, **options: str) -> str:
    """A description of one name, with an anchor that is the name itself."""
    marks = "`" * fence
    lines = [f"{marks}{{py:{kind}}} {head}", *(f":{key}: {value}".rstrip() for key, value in options.items()), "", body, marks]
    return "\n".join(lines)


def members(what: type) -> str:
    """Public methods and properties of a class; those that a described class above it has are told there."""
    above = next((each for each in what.__mro__[1:] if id(each) in homes()), None)
    made = [f"Also everything that {{py:class}}`{homes()[id(above)]}` has."] if above else []
    for name in dir(what):
        if name.startswith("_") or _from_outside(what, name) or hasattr(above, name):
            continue
        found = inspect.getattr_static(what, name)
        plain = getattr(what, name, None)
        text = prose(inspect.getdoc(plain) or "")
        if isinstance(found, classmethod):
            made.append(directive("method", name + signature(plain), text, 4, classmethod=""))
        elif isinstance(found, staticmethod):
            made.append(directive("method", name + signature(plain), text, 4, staticmethod=""))
        elif inspect.isfunction(found):
            made.append(directive("method", name + signature(found, method=True), text, 4))
        elif isinstance(found, property) or type(found).__name__ == "cached_property":
            getter = found.fget if isinstance(found, property) else found.func
            made.append(directive("property", name, prose(inspect.getdoc(getter) or ""), 4, **_returns(getter)))
    return "\n\n".join(made)


def _from_outside(what: type, name: str) -> bool:
    owner = next((each for each in what.__mro__ if name in vars(each)), what)
    return not owner.__module__.startswith("dpsurvey")


def _returns(getter: Any) -> dict[str, str]:
    wanted = _type(getter.__annotations__.get("return", inspect.Parameter.empty))
    return {"type": wanted} if wanted else {}


def entry(room: str, name: str, what: Any) -> str:
    """One name of a room."""
    if inspect.ismodule(what):
        text = f"A room of its own: [{what.__name__}]({what.__name__}.md). {escaped(first_sentence(what.__doc__ or ''))}"
        return directive("data", f"{room}.{name}", text, 5)
    if (home := homes().get(id(what), "")) not in ("", f"{room}.{name}"):
        return directive("data", f"{room}.{name}", f"The same as {{py:obj}}`{home}`.", 5)
    text = prose(inspect.getdoc(what) or "")
    if inspect.isclass(what):
        inside = members(what)
        kind = "exception" if issubclass(what, BaseException) else "class"
        head = name if kind == "exception" else name + signature(what)
        return directive(kind, f"{room}.{head}", f"{text}\n\n{inside}", 5)
    if callable(what) and not hasattr(what, "__origin__"):
        return directive("function", f"{room}.{name}{signature(what)}", text, 5)
    return directive("data", f"{room}.{name}", escaped(_value(what)), 5)


def _value(what: Any) -> str:
    if metadata := getattr(what, "__metadata__", ()):
        return f"The type of an option. {metadata[0].help}"
    if isinstance(what, str | tuple):
        return ", ".join(f"`{each}`" for each in ([what] if isinstance(what, str) else what)) + "."
    if isinstance(what, dict):
        return "A list by name: " + ", ".join(f"`{key}`" for key in what) + "."
    return "One of " + ", ".join(f'`"{word}"`' for word in getattr(what, "__args__", ())) + "."


def summary(what: Any, name: str) -> str:
    """One line about a name, for the table at the top of a page."""
    if isinstance(what, dict | str | tuple) or hasattr(what, "__origin__"):
        return escaped(_value(what))
    return cell(first_sentence(inspect.getdoc(what) or name))


def room_page(room: str) -> str:
    """The page of one room: a table of its names, then each of them."""
    module = importlib.import_module(room)
    names = list(module.__all__)
    rows = [(f"{{py:obj}}`{name} <{room}.{name}>`", summary(getattr(module, name), name)) for name in names]
    entries = (f"## {escaped(name)}\n\n{entry(room, name, getattr(module, name))}" for name in names)
    return "\n\n".join((f"# {room}", prose(module.__doc__ or ""), table(("name", "is"), rows), *entries)) + "\n"


def write_pages(folder: Path) -> list[str]:
    """Writes every page that is made from code; pages that are as they were are left alone."""
    pages = {room: room_page(room) for room in rooms()} | {"commands": commands_page()}
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.glob("*.md")) - {folder / f"{name}.md" for name in pages}:
        old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return sorted(pages)
