"""What sampling does to a privacy loss, as mathematics: transport and chain bounds, whole curves, worst cases, tests. Pure."""
