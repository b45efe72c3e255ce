"""The list of commands: each is loaded when it is used, and `dpsurvey --help` loads none of them."""

from __future__ import annotations

import tokenize
from ast import literal_eval
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ..errors import BadValue

# What a file of this folder says if it is a command: its place among the others. Its `app` is the command, and its docstring
# begins with its line in the help. Neither is run to be read.
PLACE = "PLACE_IN_HELP = "
# Any installed package may add commands under this name.
GROUP = "dpsurvey.commands"


class Installed(Mapping[str, Any]):
    """Every command by its name: those of this package, then what other packages add. What is looked up is loaded."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    @cached_property
    def own(self) -> list[str]:
        """The commands of this package, in their order."""
        return [name for _, name in sorted(_places())]

    @cached_property
    def added(self) -> dict[str, EntryPoint]:
        """The commands that other packages add, by name."""
        return {each.name: each for each in sorted(entry_points(group=GROUP)) if each.name not in self.own}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = get_command(self._load(name))
            self._loaded[name].name = name
        return self._loaded[name]

    def _load(self, name: str) -> Typer:
        if name in self.own:
            own: Typer = import_module(f".{name}", __package__).app
            return own
        entry = self.added[name]
        try:
            app = entry.load()
        except Exception as error:
            raise BadValue(f"the command {name!r} cannot be loaded", because=str(error), given=entry.value) from error
        if not isinstance(app, Typer):
            raise BadValue(f"the command {name!r} is not a Typer app", given=entry.value)
        return app

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.added

    def __len__(self) -> int:
        return len(self.own) + len(self.added)

    def line(self, name: str) -> str:
        """What a command does, in a line: the first of the docstring of its module, which is read and not run."""
        return first_line(f"{__package__}.{name}" if name in self.own else self.added[name].module)


class Commands(TyperGroup):
    """The group of all commands. Its help knows them by name and line only."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = Installed()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        listed = [TyperCommand(name=name, help=self.commands.line(name)) for name in self.commands]
        known = TyperGroup(
            name=self.name, commands=listed, params=self.params, help=self.help, rich_markup_mode=self.rich_markup_mode
        )
        known.format_help(ctx, formatter)


def _places() -> Iterator[tuple[int, str]]:
    for path in Path(__file__).parent.glob("*.py"):
        with tokenize.open(path) as file:
            line = next((line for line in file if line.startswith(PLACE)), "")
        if line:
            yield int(line.removeprefix(PLACE)), path.stem


def first_line(module: str) -> str:
    """The first line of a module's docstring, from its source.

    >>> first_line("dpsurvey.cli.commands")
    'The list of commands: each is loaded when it is used, and `dpsurvey --help` loads none of them.'
    """
    names, path = module.split("."), None
    for count in range(1, len(names) + 1):
        found = PathFinder.find_spec(".".join(names[:count]), path)
        if found is None:
            return ""
        path = found.submodule_search_locations
    if found is None or not found.origin or not found.origin.endswith(".py"):
        return ""
    with tokenize.open(found.origin) as file:
        words = (each for each in tokenize.generate_tokens(file.readline) if each.type not in (tokenize.COMMENT, tokenize.NL))
        first = next(words)
    return str(literal_eval(first.string)).strip().split("\n")[0] if first.type == tokenize.STRING else ""
