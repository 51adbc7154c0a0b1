"""Covariate shift: the density ratio of a target and a source population, estimated from features without labels."""
