"""What is learned from a log: a function of its entries, computed by one learner, or again by a replay."""
