"""`dpsurvey` in this process, for tests of what its commands do."""

import contextlib
import io
import sys

from typer.testing import CliRunner, Result

from dpsurvey.cli.app import app, main


def invoke(*words: object) -> Result:
    """The result of a command: what it prints, its exit code, its exception."""
    return CliRunner().invoke(app, [str(word) for word in words])


def printed(*words: object) -> str:
    """The stdout of a command that has to end well; its error comes out."""
    done = invoke(*words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def run_main(*words: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr through the entry point; an exception that would print a traceback comes out."""
    out, err, before, code = io.StringIO(), io.StringIO(), sys.argv, None
    sys.argv = ["dpsurvey", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    return int(code or 0), out.getvalue(), err.getvalue()
