"""How many units are drawn from each stratum: rules, private rules, and their comparison."""
