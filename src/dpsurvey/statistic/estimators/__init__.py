"""How noisy sums become an estimate and its interval, one file for each estimator."""
