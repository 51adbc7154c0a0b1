"""Decision trees on features: growth and pruning, bins of the features, and what the nodes predict."""
