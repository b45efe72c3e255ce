"""The command line: one file for each command, which `app` loads when it is used."""
