"""The toys put themselves on the lists when they are read, so nobody reads them but the test of additions."""

collect_ignore = ["toys.py"]
