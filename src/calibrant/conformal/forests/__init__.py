"""Conformal sets from forests: quantiles in leaves, and rows scored by the trees that have not seen them."""
