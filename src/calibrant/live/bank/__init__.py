"""A bank of forecasters: one Platt map for each of many keys, shrunken toward a common prior."""
