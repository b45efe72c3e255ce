"""The page of the command line: every command from its own help."""

from __future__ import annotations

import re
from typing import Any

import typer
from site_text import cell, first_sentence, prose, table

from dpsurvey.cli.app import app

# What the types of options are called on a page for people.
TAKES = {"str": "text", "int": "whole number", "float": "number", "path": "file"}
# One or several paragraphs that are a command and nothing else.
EXAMPLES = re.compile(r"(?:^Examples?:\s*)?((?:^ *`dpsurvey [^`]+`\s*)+)", re.M)


def commands_page() -> str:
    """Every command: usage, help with examples, arguments and options."""
    root = typer.main.get_command(app)
    made = [
        "# Commands",
        prose(root.help or ""),
        "`--help` after any command prints the same. Exit codes: 0 done, 1 refused, 2 wrong usage, 3 released but not saved.",
        "Any installed package can add a command: an entry point of the group `dpsurvey.commands` that names a Typer app, in a "
        "module whose docstring begins with what the command does, in one line.",
    ]
    made.append(table(("command", "does"), [(_link(path), cell(first_sentence(each.help or ""))) for path, each in walk(root)]))
    made += [command(path, each) for path, each in walk(root)]
    return "\n\n".join(made) + "\n"


def walk(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """All commands below a group, each before its own."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, each in getattr(group, "commands", {}).items():
        if not each.hidden:
            found += [((*path, name), each), *walk(each, (*path, name))]
    return found


def anchor(path: tuple[str, ...]) -> str:
    """The anchor of a command.

    >>> anchor(("ledger", "what-if"))
    'command-ledger-what-if'
    """
    return "-".join(("command", *path))


def _link(path: tuple[str, ...]) -> str:
    return f"[`{' '.join(path)}`](#{anchor(path)})"


def as_markdown(text: str) -> str:
    """The help of a command, with its examples as a listing.

    >>> as_markdown("Plan.\\n\\nExample: `dpsurvey plan a.toml`").splitlines()
    ['Plan.', '', '```sh', 'dpsurvey plan a.toml', '```']
    """
    pieces = EXAMPLES.split(re.sub(r"^Example: (?=`dpsurvey)", "", text, flags=re.M))
    listings = ["```sh\n" + "\n".join(re.findall("`([^`]+)`", piece)) + "\n```" for piece in pieces[1::2]]
    words = [prose(piece) for piece in pieces[::2]]
    return "\n\n".join(part for pair in zip(words, [*listings, ""], strict=True) for part in pair if part)


def command(path: tuple[str, ...], each: Any) -> str:
    """One command."""
    whole = " ".join(("dpsurvey", *path))
    context = typer.Context(each, info_name=whole)
    usage = each.get_usage(context).removeprefix("Usage:").strip()
    made = [
        f"({anchor(path)})=\n{'#' * (len(path) + 1)} {' '.join(path)}",
        f"```text\n{' '.join(usage.split())}\n```",
        as_markdown(each.help or ""),
    ]
    rows = [_row(option, context) for option in each.params if not option.hidden and "--help" not in option.opts]
    return "\n\n".join([*made, table(("argument or option", "takes", "is", "default"), rows)] if rows else made)


def _row(option: Any, context: typer.Context) -> tuple[str, str, str, str]:
    flag = getattr(option, "is_flag", False)
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    record = option.get_help_record(context) or ("", "")
    kind = "" if flag else record[0].rpartition(" ")[2].strip("<>")
    one = kind.removeprefix("list[").removesuffix("]")
    takes = TAKES.get(one, f"`{one}`" if one else "") + (", several times" if kind != one else "")
    default = option.default
    shown = "" if default in (None, False, "", ()) or flag or callable(default) else f"`{default}`"
    return names, takes, cell(option.help or ""), "needed" if option.required else shown
