"""How noisy sums become a number and its interval, one file for each estimator."""
