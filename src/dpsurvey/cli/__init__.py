"""The command line, one file for each command."""

from .app import app, main

__all__ = ["app", "main"]
