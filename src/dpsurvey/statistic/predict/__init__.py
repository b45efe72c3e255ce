"""The errors to expect, from public figures alone."""
