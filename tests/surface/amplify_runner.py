"""Runs `dpsurvey amplify` and its neighbours in this process, through the real entry point; read by the test files beside it."""

import json
import re
import shlex

from tests.command_line import run_main

ADD, REPLACE, BOTH = "add-remove", "replace-one", "both"


def dpsurvey(line, command="amplify"):
    """The exit code, stdout and stderr of `dpsurvey COMMAND LINE`; an exception that would print a traceback comes out."""
    return run_main(*command.split(), *shlex.split(line))


def plain(text):
    """Text without colours, boxes and line ends, which depend on the terminal."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))


def no_constant(name):
    """JSON has no NaN and no Infinity."""
    raise AssertionError(f"{name} is not JSON")


def answer(line, base=ADD, neighbours=ADD):
    """What the command prints with --json."""
    code, out, err = dpsurvey(f"{line} --base {base} --neighbours {neighbours} --json")
    assert (code, err) == (0, "")
    return json.loads(out, parse_constant=no_constant)
