"""A detector that fits an estimator of scikit-learn to the fleet at every look."""
