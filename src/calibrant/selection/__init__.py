"""How a calibrator is chosen: folds, losses, cross-validation, the rule; without scikit-learn."""
